/** The package in an installation that lacks koffi, or koffi's binary. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { TestFolder } from "../../support/test-folder.js";

const ROOT = fileURLToPath(new URL("../../../../", import.meta.url));

const missing = {
  koffi: "it is not installed",
  "koffi's binary": `its binary for linux-${process.arch} is not installed`,
};

/** A copy of the compiled package, whose imports are found in the copy alone. */
function install(folder: TestFolder, lacks: string): string {
  const modules = folder.file("node_modules");
  mkdirSync(modules);
  for (const name of ["commander", "valibot", "cli-progress"])
    symlinkSync(join(ROOT, "node_modules", name), join(modules, name));
  if (lacks !== "koffi") {
    const isCode = (path: string) => statSync(path).isDirectory() || /\.(c?js|json)$/.test(path);
    const koffi = join(ROOT, "node_modules/koffi");
    cpSync(koffi, join(modules, "koffi"), { recursive: true, filter: isCode });
  }
  writeFileSync(
    folder.file("package.json"),
    JSON.stringify({ name: "cuda-ipc", version: "1.2.3", type: "module" }),
  );
  const dist = folder.file("dist");
  const withoutMaps = (path: string) => !path.endsWith(".map");
  cpSync(join(ROOT, "build/src"), dist, { recursive: true, filter: withoutMaps });
  return dist;
}

function run(folder: TestFolder, ...args: readonly string[]) {
  const { NODE_OPTIONS: _, ...inherited } = process.env;
  const env = { ...inherited, CUDA_IPC_SOCKET: folder.socket, TMPDIR: folder.path };
  return spawnSync(process.execPath, args, { cwd: folder.path, env, encoding: "utf8" });
}

describe("an installation without koffi", () => {
  for (const [lacks, found] of Object.entries(missing)) {
    const refusal = `Cannot load koffi, which calls C libraries: ${found}`;

    it(`is refused by the command line in one sentence if it lacks ${lacks}`, () => {
      using folder = new TestFolder();
      const launch = join(install(folder, lacks), "cli/launch.cjs");
      const commands = ["demo", "demo pool", "demo crash", "doctor", "ls", "put x package.json"];
      for (const words of [...commands, "channel stat x", "hub status", "hub serve"]) {
        const { status, stdout, stderr } = run(folder, launch, ...words.split(" "));
        assert.deepEqual([status, stdout], [1, ""], stderr);
        const hint = "Run `npm install` again on this machine, with optional packages.";
        assert.equal(stderr, `error[UNSUPPORTED]: ${refusal}.\n  hint: ${hint}\n`);
      }
      assert.equal(run(folder, launch, "--version").stdout, "1.2.3\n");
      assert.match(run(folder, launch, "demo", "--help").stdout, /^Usage: cuda-ipc demo/);
    });

    it(`can be imported, and connect() throws one sentence if it lacks ${lacks}`, () => {
      using folder = new TestFolder();
      const door = join(install(folder, lacks), "index.js");
      const program = `
        import { connect } from ${JSON.stringify(door)};
        const error = await connect().catch((error) => error);
        console.log(JSON.stringify([error.name, error.code, error.message]));`;
      const { stdout, stderr } = run(folder, "--input-type=module", "--eval", program);
      assert.equal(stderr, "");
      assert.deepEqual(JSON.parse(stdout), ["CudaIpcError", "UNSUPPORTED", refusal]);
    });
  }
});
