/**
 * Demos on a GPU that lacks a mechanism: the libcuda in C of the conformance suite, told what it
 * lacks. Each demo says so, and ends without an error.
 */
import assert from "node:assert/strict";
import { readdir } from "node:fs/promises";
import { describe, it } from "node:test";
import { expectLibcudaInC, skipLibcudaInC } from "../../support/libcuda-in-c.js";
import { skipWithoutEngines } from "../../support/machines/engines.js";
import { someOf } from "../../support/random.js";
import { CliRig, LAUNCH } from "./cli-rig.js";

const ROOT = new URL("../../../../", import.meta.url);

const { demoNames } = (await import(new URL("scripts/demo-names.mjs", ROOT).href)) as {
  demoNames(launcher: string): readonly string[];
};

/** What the libcuda in C can be told to lack. */
const ALL = "vmm pools legacy events kernels words";

async function openRig(lacks: string): Promise<CliRig> {
  const rig = await CliRig.open();
  rig.env.LD_LIBRARY_PATH = expectLibcudaInC().folder;
  rig.env.LIBCUDA_IN_C_LACKS = lacks;
  return rig;
}

async function assertSkipped(rig: CliRig, name: string): Promise<void> {
  const { code, stdout, stderr } = await rig.run("demo", name, "--device", "cuda:0");
  assert.deepEqual([code, stderr], [0, ""], name);
  const last = stdout.trimEnd().split("\n").at(-1) ?? "";
  assert.ok(last.startsWith(`Skipped "${name}": `), stdout);
  // Kernels of CUDA C++ are compiled first, for the capability that the device claims.
  assert.match(last, /not support|NOT_SUPPORTED|compute capability/i);
  assert.doesNotMatch(stdout, /Done:/);
  assert.deepEqual(await readdir(rig.folder), []);
}

describe("a demo on a GPU without its mechanism", { skip: skipLibcudaInC() }, () => {
  const needed = {
    ...{ share: "vmm", crash: "vmm", vmm: "vmm", pool: "pools", legacy: "legacy", ring: "words" },
    ...{ fork: "kernels", exchange: "kernels", "supervised-workers": "kernels" },
  };
  for (const name of someOf(demoNames(LAUNCH), 4)) {
    const skip = name === "machines" && skipWithoutEngines;
    it(`${name} is skipped by name if the GPU has no mechanism at all`, { skip }, async () => {
      await using rig = await openRig(ALL);
      await assertSkipped(rig, name);
    });
  }

  for (const [name, mechanism] of someOf(Object.entries(needed), 3)) {
    it(`${name} is skipped by name without ${mechanism} alone`, async () => {
      await using rig = await openRig(mechanism);
      await assertSkipped(rig, name);
    });
  }

  it("runs if it needs only what there is", async () => {
    await using rig = await openRig("pools legacy events kernels");
    assert.match(await rig.ok("demo", "share", "-n", "100", "--device", "cuda:0"), /\nDone: /);
  });
});
