import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { TestFolder } from "../../support/test-folder.js";
import { type Bundling, bundlers } from "./bundlers.js";

const PACKAGE = fileURLToPath(new URL("../../../src", import.meta.url));
const KOFFI = join(dirname(dirname(PACKAGE)), "node_modules/koffi");

const REFUSAL =
  /^UNSUPPORTED Cannot (load koffi|start a hub): [^.]*\. [^.]*\(esbuild: --external:cuda-ipc;[^.]*\)$/;

const PROGRAM = `
import { connect } from "cuda-ipc";

async function main() {
  const hub = await connect({ device: "host" });
  const array = await hub.create("bundled", { dtype: "int32", shape: [3] });
  await array.write(Int32Array.of(1, 2, 3));
  await array.publish();
  const opened = await hub.open("bundled");
  console.log(JSON.stringify([...(await opened.read())]));
  await hub.close();
}
main().catch((error) => console.log(error.code + " " + error.message));
`;

/** A user's project with a bundled program and an installed cuda-ipc. */
async function bundle(
  folder: TestFolder,
  bundler: keyof typeof bundlers,
  how: Pick<Bundling, "format" | "external">,
) {
  const installed = folder.file("node_modules/cuda-ipc");
  mkdirSync(installed, { recursive: true });
  symlinkSync(PACKAGE, join(installed, "dist"));
  const manifest = {
    name: "cuda-ipc",
    version: "0.0.0",
    type: "module",
    sideEffects: false,
    exports: { ".": "./dist/index.js", "./*": "./dist/doors/*.js" },
  };
  writeFileSync(join(installed, "package.json"), JSON.stringify(manifest));
  const entry = folder.file("program.mjs");
  writeFileSync(entry, PROGRAM);
  const output = folder.file(`out/bundle.${how.format === "esm" ? "mjs" : "cjs"}`);
  await bundlers[bundler]({ entry, output, ...how });
  return output;
}

/** The program's output: the array's values, or the error. */
async function run(folder: TestFolder, program: string): Promise<string> {
  const env = { ...process.env, CUDA_IPC_SOCKET: folder.socket, NODE_NO_WARNINGS: "1" };
  const child = spawn(process.execPath, [program], { env, stdio: ["ignore", "pipe", "pipe"] });
  let said = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.on("data", (bytes) => {
      said += String(bytes);
    });
  }
  await once(child, "close");
  return said.trim();
}

for (const bundler of ["esbuild", "rollup", "webpack"] as const) {
  for (const format of ["esm", "cjs"] as const) {
    describe(`a program bundled by ${bundler} as ${format}`, () => {
      it("works if cuda-ipc stays out of the bundle", async () => {
        await using folder = new TestFolder();
        const program = await bundle(folder, bundler, { format, external: true });
        assert.equal(await run(folder, program), "[1,2,3]");
      });

      it("names the setting that helps if cuda-ipc is in the bundle", async () => {
        await using folder = new TestFolder();
        const program = await bundle(folder, bundler, { format, external: false });
        assert.match(await run(folder, program), REFUSAL);
        // With koffi beside the bundle it gets further, but then does not find the hub's program.
        symlinkSync(KOFFI, folder.file("node_modules/koffi"));
        assert.match(await run(folder, program), REFUSAL);
      });
    });
  }
}

describe("a program of CommonJS", () => {
  it("gets the package by require", async () => {
    await using folder = new TestFolder();
    await bundle(folder, "esbuild", { format: "cjs", external: true });
    const program = folder.file("program.cjs");
    writeFileSync(
      program,
      PROGRAM.replace(
        'import { connect } from "cuda-ipc"',
        'const { connect } = require("cuda-ipc")',
      ),
    );
    assert.equal(await run(folder, program), "[1,2,3]");
  });
});
