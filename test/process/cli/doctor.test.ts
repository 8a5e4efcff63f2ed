import assert from "node:assert/strict";
import { chmod, writeFile } from "node:fs/promises";
import { describe, it } from "node:test";
import { skipWithoutUcx } from "../../support/machines/engines.js";
import { CliRig } from "./cli-rig.js";

interface Findings {
  readonly ok: boolean;
  readonly system: readonly {
    readonly name: string;
    readonly state: string;
    readonly detail: string;
  }[];
  readonly surroundings: readonly {
    readonly name: string;
    readonly state: string;
    readonly notes?: readonly string[];
  }[];
  readonly driver: { readonly state: string };
  readonly devices: readonly {
    readonly name: string;
    readonly works: boolean;
    readonly checks: readonly { state: string }[];
  }[];
}

describe("cuda-ipc doctor", () => {
  it("prints what works, including the host device", async () => {
    await using rig = await CliRig.open();
    const text = await rig.ok("doctor");
    for (const check of [
      "memory files",
      "sockets",
      "process watch",
      "runtime folder",
      "CUDA driver",
    ]) {
      assert.match(text, new RegExp(`^ {2}(ok|missing|failed) +${check} +\\S`, "m"), check);
    }
    for (const check of [
      "memory",
      "shared memory",
      "copies",
      "waiting",
      "waiting, read-only",
      "by name",
    ]) {
      assert.match(text, new RegExp(`^ {2}ok +${check} {2,}\\S`, "m"), check);
    }
    for (const check of ["element operations", "legacy handles", "events", "memory pools"]) {
      assert.match(
        text,
        new RegExp(`^ {2}ok +${check} {2,}\\S.*(verified|results|done)`, "m"),
        check,
      );
    }
    assert.match(text, /^ {2}not supported {2}host-numa memory {4}UNSUPPORTED: /m);
    assert.match(
      text,
      /^ {2}(ok|not supported) +NVRTC {2,}(compiled a kernel for |NVRTC_NOT_FOUND: )/m,
    );
    assert.match(text, /^ +peer access +there is no other GPU$/m);
    assert.doesNotMatch(text.slice(text.indexOf("Device host")), /not tried/);
    assert.match(text, /^Device host works\.$/m);
    assert.ok(
      text.includes(`no hub runs at ${rig.socket}; one starts`),
      "it starts no hub of the user's",
    );
  });

  it("reports that no hub can start if its socket path is a file", async () => {
    await using rig = await CliRig.open();
    await writeFile(rig.socket, "");
    const { code, stdout } = await rig.run("doctor");
    assert.equal(code, 1);
    assert.match(
      stdout,
      /^ {2}failed +hub +HUB_UNAVAILABLE: Cannot start a hub: the file at .+ is not a socket$/m,
    );
  });

  it("prints the same in JSON", async () => {
    await using rig = await CliRig.open();
    const { ok, system, devices } = await rig.json<Findings>("doctor");
    assert.equal(ok, true);
    assert.deepEqual(
      system.filter(({ state }) => state !== "fact").map(({ state }) => state),
      Array.from({ length: 5 }, () => "ok"),
    );
    assert.deepEqual([devices[0]?.name, devices[0]?.works], ["host", true]);
  });

  it("prints the surroundings as facts, in text and in JSON", async () => {
    await using rig = await CliRig.open();
    const text = await rig.ok("doctor");
    const { surroundings } = await rig.json<Findings>("doctor");
    assert.deepEqual(new Set(surroundings.map(({ state }) => state)), new Set(["fact"]));
    for (const name of ["container", "/dev/shm", "ptrace scope", "open files", "locked memory"]) {
      assert.match(
        text,
        new RegExp(`^Surroundings$[^]*^ +${name} {2,}\\S[^]*^Device host`, "m"),
        name,
      );
      const check = surroundings.find((each) => each.name === name);
      assert.ok(check !== undefined, name);
      // WHY without numbers: the text and the JSON come from two runs, whose numbers may differ.
      const words = (given: string) => given.replace(/\d+/g, "N");
      for (const note of check.notes ?? []) {
        assert.ok(words(text).includes(words(`\n${" ".repeat(37)}- ${note}\n`)), note);
      }
    }
  });

  it("prints the variables of GPUs without their control characters", async () => {
    await using rig = await CliRig.open();
    rig.env.CUDA_VISIBLE_DEVICES = "MIG-\u001b[2J";
    const { stdout } = await rig.run("doctor", "--device", "host");
    assert.match(
      stdout,
      /visible GPUs +CUDA_VISIBLE_DEVICES=MIG-\\u001b\[2J\n +- names MIG instances/,
    );
  });

  it("names the hub that answers", async () => {
    await using rig = await CliRig.open();
    await using _hub = await rig.join();
    assert.match(
      await rig.ok("doctor", "--device", "host"),
      /ok +hub +process \d+, version .+ keeps 0 objects/,
    );
  });

  it("reports an unsafe runtime folder, and fails", async () => {
    await using rig = await CliRig.open();
    await chmod(rig.folder, 0o755);
    const { code, stdout } = await rig.run("doctor");
    await chmod(rig.folder, 0o700);
    assert.equal(code, 1);
    assert.match(
      stdout,
      /failed +runtime folder +UNSAFE_RUNTIME_DIR: .+\n +to do: Make the folder private/,
    );
    assert.match(stdout, /^Fix the failed System checks first\.$/m);
  });

  it("fails for a missing device, and says what to do", async () => {
    await using rig = await CliRig.open();
    const { code, stdout } = await rig.run("doctor", "--device", "cuda:99");
    assert.equal(code, 1);
    assert.match(stdout, /to do: \S/);
    assert.match(stdout, /^Device cuda:99 does not work\.$/m);
    const nonsense = await rig.run("doctor", "--device", "nonsense");
    assert.equal(nonsense.code, 1);
    assert.match(nonsense.stdout, /INVALID_DEVICE/);
  });

  it("says if there is no GPU", { skip: process.env.REQUIRE_GPU === "1" }, async (t) => {
    await using rig = await CliRig.open();
    const { driver } = await rig.json<Findings>("doctor");
    if (driver.state === "ok") return t.skip("there is one");
    assert.match(await rig.ok("doctor"), /This process can use no GPU/);
  });

  it("prints JSON alone with --json, although UCX logs what it does", {
    skip: skipWithoutUcx(),
  }, async () => {
    await using rig = await CliRig.open();
    rig.env.UCX_LOG_LEVEL = "info";
    const { code, stdout, stderr } = await rig.run("doctor", "--json");
    assert.equal(code, 0, stderr);
    assert.equal((JSON.parse(stdout) as Findings).ok, true);
    assert.match(stderr, /UCX {2}INFO/);
  });
});
