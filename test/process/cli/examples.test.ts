/** Examples that run without the command: by Node itself, and one with a second half in Python. */
import assert from "node:assert/strict";
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { readdir } from "node:fs/promises";
import { createInterface } from "node:readline";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { saidIn } from "../../docs/example-output.js";
import { CliRig, eventually } from "./cli-rig.js";

const LIMIT_MS = 60_000;
const PACKAGE = new URL("../../../src/", import.meta.url);
const python = process.env.PYTHON ?? "python3";

function start(rig: CliRig, name: string, ...args: string[]): ChildProcess {
  const file = fileURLToPath(new URL(`../../../examples/${name}.js`, import.meta.url));
  return spawn(process.execPath, [file, ...args], {
    env: rig.env,
    stdio: "pipe",
    timeout: LIMIT_MS,
  });
}

async function outcome(
  child: ChildProcess,
): Promise<{ code: number | null; stdout: string; stderr: string }> {
  const [stdout, stderr] = [child.stdout, child.stderr].map((stream) => {
    const parts: Buffer[] = [];
    stream?.on("data", (part) => parts.push(part));
    return parts;
  });
  const [code] = await once(child, "close");
  return {
    code,
    stdout: Buffer.concat(stdout ?? []).toString(),
    stderr: Buffer.concat(stderr ?? []).toString(),
  };
}

async function firstLine(child: ChildProcess): Promise<string> {
  assert.ok(child.stdout !== null);
  const [line] = await once(createInterface({ input: child.stdout }), "line");
  return line;
}

describe("an example run by Node", () => {
  it("prints its steps and removes its folder", async () => {
    await using rig = await CliRig.open();
    const { code, stdout, stderr } = await outcome(start(rig, "vmm", "--elements", "100"));
    assert.deepEqual([code, stderr], [0, ""]);
    assert.equal(saidIn(stdout).length, 10);
    assert.deepEqual(await readdir(rig.folder), []);
  });

  it("removes its folder after Ctrl-C", async () => {
    await using rig = await CliRig.open();
    const child = start(rig, "vmm", "--elements", "50000000");
    await firstLine(child);
    const ended = outcome(child);
    child.kill("SIGINT");
    assert.equal((await ended).code, 130);
    await eventually("the folder is empty", async () =>
      (await readdir(rig.folder)).length === 0 ? true : undefined,
    );
  });

  it("prints an error once, in one line", async () => {
    await using rig = await CliRig.open();
    for (const args of [["--processes", "3"], ["--elements", "0"], ["--colour"]]) {
      const { code, stdout, stderr } = await outcome(start(rig, "exchange", ...args));
      assert.deepEqual([code, stdout], [2, ""]);
      assert.match(stderr, /^error\[USAGE\]: .+\n$/);
    }
    const { code, stderr } = await outcome(start(rig, "simple-ipc", "--device", "gpu"));
    assert.equal(code, 1);
    assert.match(stderr, /^error\[INVALID_DEVICE\]: Process \d+ failed: .+\n$/);
    assert.deepEqual(await readdir(rig.folder), []);
  });
});

describe("an example on a device without its mechanism", () => {
  const message = "Cannot create a pool: this device has none";
  const preload = `import { CudaIpcError } from "${PACKAGE}bundled/index.js";
    import { MemoryPool } from "${PACKAGE}bundled/doors/interop.js";
    MemoryPool.create = () => { throw new CudaIpcError("UNSUPPORTED", "${message}"); };`;

  it("prints why it is skipped, and succeeds", async () => {
    await using rig = await CliRig.open();
    rig.env.NODE_OPTIONS = `--import=data:text/javascript,${encodeURIComponent(preload)}`;
    const text = await rig.ok("demo", "pool");
    assert.ok(text.endsWith(`\nSkipped "pool": ${message}\n`), text);
    assert.doesNotMatch(text, /Done/);
    const { code, stdout, stderr } = await outcome(start(rig, "pool"));
    // The other side may have said already that it waits.
    assert.deepEqual([code, saidIn(stdout).at(-1), stderr], [0, `Skipped: ${message}`, ""]);
  });
});

const skip =
  spawnSync(python, ["-c", "import sys; sys.exit(sys.version_info < (3, 10))"]).status !== 0;
if (skip && process.env.REQUIRE_PYTHON === "1")
  throw new Error(`REQUIRE_PYTHON=1, but ${python} is not Python 3.10 or newer`);

describe("the daemon of the examples", {
  skip: skip ? "needs python3 of at least 3.10" : false,
}, () => {
  it("can be shown and changed from Python", async () => {
    await using rig = await CliRig.open();
    const daemon = start(rig, "daemon", "serve", "--elements", "10");
    try {
      await firstLine(daemon);
      const show = spawn(python, ["examples/python/show.py", "0.25"], {
        env: { ...rig.env, PYTHONPATH: "python/src" },
        timeout: LIMIT_MS,
      });
      const { code, stdout, stderr } = await outcome(show);
      assert.equal(code, 0, stderr);
      const shown =
        /^float32\[10\], rate 1\.0: .+\nset the rate to 0\.25\nfloat32\[10\], rate 0\.25: .+\n$/;
      assert.match(stdout, shown);
    } finally {
      daemon.kill("SIGINT");
      await once(daemon, "close");
    }
  });
});
