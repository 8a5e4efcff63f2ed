import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { nightly } from "../../support/random.js";
import { TestFolder } from "../../support/test-folder.js";

const DOORS = [
  "index",
  "doors/service",
  "doors/peer",
  "doors/interop",
  "doors/kernels",
  "doors/diagnostics",
].map((door) => new URL(`../../../src/${door}.js`, import.meta.url).href);
const LAUNCH = fileURLToPath(new URL("../../../src/cli/launch.cjs", import.meta.url));

interface Imitated {
  /** `process.versions` of a runtime, beside the Node.js that it imitates. */
  readonly versions?: Readonly<Record<string, string>>;
  readonly platform?: string;
}

const NODE = "cuda-ipc needs Node.js 20.19 or newer; this is";
const refusals: Readonly<Record<string, Imitated>> = {
  [`${NODE} Bun 1.4.5`]: { versions: { bun: "1.4.5", node: "24.3.0" } },
  [`${NODE} Deno 2.9.6`]: { versions: { deno: "2.9.6", node: "24.2.0" } },
  [`${NODE} Node.js 20.18.3`]: { versions: { node: "20.18.3" } },
  [`${NODE} Node.js 18.20.8`]: { versions: { node: "18.20.8" } },
  "cuda-ipc needs Linux; this is macOS": { platform: "darwin" },
  "cuda-ipc needs Linux; this is Windows": { platform: "win32" },
  "cuda-ipc needs Linux; this is freebsd": { platform: "freebsd" },
};

/** Runs a program in a Node.js that claims to be another runtime, or on another system. */
function run({ versions, platform = "linux" }: Imitated, args: readonly string[]) {
  using folder = new TestFolder();
  const preload = folder.file("imitate.cjs");
  const merged = `{ ...process.versions, ...${JSON.stringify(versions ?? {})} }`;
  writeFileSync(
    preload,
    `Object.defineProperty(process, "versions", { value: ${merged} });
    Object.defineProperty(process, "platform", { value: ${JSON.stringify(platform)} });`,
  );
  const env = { ...process.env, CUDA_IPC_SOCKET: folder.socket };
  return spawnSync(process.execPath, ["--require", preload, ...args], { env, encoding: "utf8" });
}

describe("another runtime or system", () => {
  for (const [i, [refusal, imitated]] of Object.entries(refusals).entries()) {
    /** By day one of these, another one for each refusal. */
    const oneOf = (all: readonly string[]) => (nightly ? all : [all[i % all.length] ?? ""]);
    const name = refusal.slice(refusal.indexOf("this is ") + "this is ".length);
    for (const door of oneOf(DOORS)) {
      it(`${name} is refused by an import of ${door.slice(door.indexOf("/src/") + 5)}`, () => {
        const { status, stderr } = run(imitated, [
          "--input-type=module",
          "--eval",
          `import ${JSON.stringify(door)}`,
        ]);
        assert.equal(status, 1);
        assert.ok(stderr.includes(`CudaIpcError: ${refusal}\n`), stderr);
      });
    }

    it(`${name} is refused by the command line, in one sentence with a hint`, () => {
      for (const command of oneOf(["ls", "demo", "doctor", "--version"])) {
        const { status, stdout, stderr } = run(imitated, [LAUNCH, command]);
        assert.deepEqual([status, stdout], [1, ""]);
        assert.match(stderr, /^error\[UNSUPPORTED\]: .+\.\n {2}hint: .+\n$/);
        assert.ok(stderr.startsWith(`error[UNSUPPORTED]: ${refusal}.\n`), stderr);
      }
    });
  }

  it("is neither this runtime nor the oldest Node.js that the package supports", () => {
    const [door] = DOORS;
    for (const versions of [{}, { node: "20.19.0" }, { node: "22.0.0" }]) {
      const args = ["--input-type=module", "--eval", `import ${JSON.stringify(door)}`];
      const { status, stderr } = run({ versions }, args);
      assert.equal(status, 0, stderr);
    }
  });
});
