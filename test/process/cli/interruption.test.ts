import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { open, readdir, writeFile } from "node:fs/promises";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { CliRig, eventually } from "./cli-rig.js";

const LAUNCH = fileURLToPath(new URL("../../../src/cli/launch.cjs", import.meta.url));

/** A file that takes long to read, but no space. */
async function makeLongFile(path: string): Promise<void> {
  const file = await open(path, "w");
  await file.truncate(2 * 1024 ** 3);
  await file.close();
}

describe("cuda-ipc put that is interrupted", () => {
  for (const [signal, code] of [
    ["SIGKILL", 137],
    ["SIGINT", 130],
    ["SIGTERM", 143],
  ] as const) {
    it(`leaves nothing behind after ${signal}`, async () => {
      await using rig = await CliRig.open();
      await makeLongFile(rig.path("long.bin"));
      await using hub = await rig.join();
      const { child, outcome } = rig.start("put", "x", "long.bin");
      await eventually("the name is there", async () => (await hub.list())[0]?.name);
      child.kill(signal);
      const { code: found, stdout } = await outcome;
      assert.deepEqual([found, stdout], [code, ""]);
      const status = await eventually("the object is gone", async () => {
        const now = await hub.status();
        return now.objects === 0 ? now : undefined;
      });
      assert.deepEqual([status.leases, status.hostBytes], [0, 0]);
    });
  }
});

describe("cuda-ipc get onto a full disk", () => {
  const canMount =
    spawnSync("unshare", ["-rm", "mount", "-t", "tmpfs", "none", "/mnt"]).status === 0;

  it("reports it and removes its temporary file", {
    skip: canMount ? false : "no file system can be mounted",
  }, async () => {
    await using rig = await CliRig.open();
    await writeFile(rig.path("in.bin"), new Uint8Array(3 * 1024 * 1024));
    await rig.ok("put", "x", "in.bin");
    const script =
      'mount -t tmpfs -o size=1m none /mnt && "$0" "$1" get x /mnt/out.bin; code=$?; ls -A /mnt; exit $code';
    const child = spawn("unshare", ["-rm", "sh", "-c", script, process.execPath, LAUNCH], {
      env: rig.env,
    });
    let stdout = "";
    let stderr = "";
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      stdout += text;
    });
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      stderr += text;
    });
    const [code] = (await once(child, "close")) as [number];
    assert.match(stderr, /^error\[DISK_FULL\]: .+\n {2}hint: Free .+\.\n$/);
    assert.deepEqual([code, stdout], [1, ""]);
  });

  it("reports a full disk for its own output", async () => {
    await using rig = await CliRig.open();
    const full = await open("/dev/full", "w");
    const child = spawn(process.execPath, [LAUNCH, "ls"], {
      env: rig.env,
      stdio: ["ignore", full.fd, "pipe"],
    });
    let stderr = "";
    child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      stderr += text;
    });
    const [code] = (await once(child, "close")) as [number];
    await full.close();
    assert.equal(code, 1);
    assert.match(stderr, /^error\[DISK_FULL\]: Cannot write the output/);
    assert.deepEqual(await readdir(rig.folder), []);
  });
});
