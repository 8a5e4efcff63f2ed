/** Runs the inference server example with few requests. It kills one of its workers itself. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir } from "node:fs/promises";
import { createInterface } from "node:readline";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { exampleHead, saidIn } from "../../docs/example-output.js";
import { findCudaHeader } from "../../unit/ffi/cuda-header.js";
import { CliRig } from "../cli/cli-rig.js";

const libcuda = fileURLToPath(
  new URL("../../../../test/conformance/libcuda-in-c/libcuda.c", import.meta.url),
);
const MAIN = fileURLToPath(new URL("../../../examples/inference-server/main.js", import.meta.url));

async function outcome(
  rig: CliRig,
  ...args: string[]
): Promise<{ code: number | null; out: string; err: string }> {
  const child = spawn(process.execPath, [MAIN, ...args], {
    env: rig.env,
    stdio: "pipe",
    timeout: 120_000,
  });
  const texts = [child.stdout, child.stderr].map((stream) => {
    const parts: Buffer[] = [];
    stream.on("data", (part) => parts.push(part));
    return parts;
  });
  const [code] = await once(child, "close");
  const [out = "", err = ""] = texts.map((parts) => Buffer.concat(parts).toString());
  return { code, out, err };
}

describe("the inference server", () => {
  it("answers every request correctly although a worker is killed", async () => {
    await using rig = await CliRig.open();
    const { code, out, err } = await outcome(
      rig,
      "--workers",
      "2",
      "--requests",
      "24",
      "--device",
      "host",
    );
    assert.deepEqual([code, err], [0, ""]);
    const { lines } = exampleHead("inference-server/main");
    const said = saidIn(out);
    assert.equal(said.length, lines.length);
    // There is one share for each worker that answered.
    const shares = said.pop() ?? "";
    assert.match(
      shares,
      /^24 images of 2 formats, all correct, \d+ retried; by workers (\d+: \d+(, )?){2,3}$/,
    );
    for (const [i, line] of said.entries()) assert.match(line, lines[i] as RegExp);
  });

  it("has its weights in shared memory once, and each worker maps them for reading", async () => {
    await using rig = await CliRig.open();
    const args = ["--serve", "--workers", "2", "--device", "host"];
    const server = spawn(process.execPath, [MAIN, ...args], { env: rig.env, timeout: 120_000 });
    try {
      const workers: number[] = [];
      for await (const line of createInterface({ input: server.stdout })) {
        const [, pids] = /2 workers: ([\d, ]+)$/.exec(line) ?? [];
        if (pids === undefined) continue;
        workers.push(...pids.split(", ").map(Number));
        break;
      }
      await using hub = await rig.join();
      const { object, holders } = await hub.inspect(`model-${server.pid}`);
      assert.equal(object.descriptor.content.kind, "bundle");
      const found = holders.map(({ pid, access }) => `${pid} ${access}`).sort();
      const wanted = [`${server.pid} owner`, ...workers.map((pid) => `${pid} read`)].sort();
      assert.deepEqual(found, wanted);
    } finally {
      const ended = once(server, "close");
      server.kill("SIGINT");
      await ended;
    }
  });

  const header = findCudaHeader();
  const noHeader =
    typeof header === "string" && process.env.REQUIRE_CUDA_HEADER !== "1" ? header : false;

  // The parent misses memory first, and a worker misses kernels.
  for (const mechanism of ["vmm", "kernels", "vmm pools legacy events kernels words"]) {
    it(`is skipped on a GPU without ${mechanism}`, { skip: noHeader }, async () => {
      if (typeof header === "string") assert.fail(header);
      await using rig = await CliRig.open();
      const folder = rig.path("lib");
      await mkdir(folder);
      header.compile(libcuda, `${folder}/libcuda.so.1`, ["-shared", "-fPIC", "-O1"]);
      rig.env.LD_LIBRARY_PATH = folder;
      rig.env.LIBCUDA_IN_C_LACKS = mechanism;
      const { code, out, err } = await outcome(rig, "--requests", "2", "--device", "cuda:0");
      assert.deepEqual([code, err], [0, ""], out);
      const last = out.trimEnd().split("\n").at(-1) ?? "";
      assert.match(last, /^ *\d+ {2}Skipped: .*(not support|NOT_SUPPORTED)/i);
    });
  }

  it("fails on a device that is not there", async () => {
    await using rig = await CliRig.open();
    const { code, err } = await outcome(rig, "--device", "cuda:99");
    assert.equal(code, 1);
    assert.match(err, /^error\[(DRIVER|DEVICE)_NOT_FOUND\]: /);
  });

  it("names an invalid option", async () => {
    await using rig = await CliRig.open();
    const { code, err } = await outcome(rig, "--workers", "0");
    assert.deepEqual(
      [code, err],
      [2, "error[USAGE]: --workers must be an integer from 1 to 64, not 0\n"],
    );
  });
});
