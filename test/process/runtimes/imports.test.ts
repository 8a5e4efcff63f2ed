import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { TestFolder } from "../../support/test-folder.js";

const DOORS = ["index", "doors/service", "doors/peer", "doors/interop", "doors/kernels"].map(
  (door) => new URL(`../../../src/${door}.js`, import.meta.url).href,
);
const LAUNCH = fileURLToPath(new URL("../../../src/cli/launch.cjs", import.meta.url));

/** `process.versions` of that runtime, with the version of Node.js that it imitates. */
const others = {
  "Bun 1.4.5": { bun: "1.4.5", node: "24.3.0" },
  "Deno 2.9.6": { deno: "2.9.6", node: "24.2.0" },
  "Node.js 20.18.3": { node: "20.18.3" },
  "Node.js 18.20.8": { node: "18.20.8" },
};

/** Runs a program in a Node.js that claims to be another runtime. */
function run(versions: Record<string, string>, args: readonly string[]) {
  using folder = new TestFolder();
  const preload = folder.file("imitate.cjs");
  const merged = `{ ...process.versions, ...${JSON.stringify(versions)} }`;
  writeFileSync(preload, `Object.defineProperty(process, "versions", { value: ${merged} });`);
  const env = { ...process.env, CUDA_IPC_SOCKET: folder.socket };
  return spawnSync(process.execPath, ["--require", preload, ...args], { env, encoding: "utf8" });
}

describe("another runtime", () => {
  for (const [name, versions] of Object.entries(others)) {
    const refusal = `cuda-ipc needs Node.js 20.19 or newer; this is ${name}`;
    for (const door of DOORS) {
      it(`${name} is refused by an import of ${door.slice(door.indexOf("/src/") + 5)}`, () => {
        const { status, stderr } = run(versions, [
          "--input-type=module",
          "--eval",
          `import ${JSON.stringify(door)}`,
        ]);
        assert.equal(status, 1);
        assert.ok(stderr.includes(refusal), stderr);
      });
    }

    it(`${name} is refused by the command line`, () => {
      const { status, stderr } = run(versions, [LAUNCH, "ls"]);
      assert.equal(status, 1);
      assert.ok(stderr.startsWith(`error[UNSUPPORTED]: ${refusal}.\n`), stderr);
    });
  }

  it("is neither this runtime nor the oldest Node.js that the package supports", () => {
    const [door] = DOORS;
    for (const versions of [{}, { node: "20.19.0" }, { node: "22.0.0" }]) {
      const args = ["--input-type=module", "--eval", `import ${JSON.stringify(door)}`];
      const { status, stderr } = run(versions, args);
      assert.equal(status, 0, stderr);
    }
  });
});
