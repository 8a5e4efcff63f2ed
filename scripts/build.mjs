// Makes dist/, which is published: bundles of the package's doors and programs, their types, and the examples that
// `cuda-ipc demo` runs.
import { spawnSync } from "node:child_process";
import { chmodSync, rmSync } from "node:fs";
import { build } from "esbuild";
import { BUNDLE, bundlePrograms } from "./programs.mjs";

rmSync("dist", { recursive: true, force: true });
// tsc writes the types of src, which `npm run typecheck` checks, and then the examples, which import those types by the
// name of the package.
for (const project of ["tsconfig.build.json", "tsconfig.examples.json"]) {
  const tsc = spawnSync(process.execPath, ["node_modules/typescript/bin/tsc", "-p", project], { stdio: "inherit" });
  if (tsc.status !== 0) process.exit(tsc.status ?? 1);
}
// WHY together: what both doors use is in chunks that they share, so that an error of one is an instance of the other's class.
await build({ ...BUNDLE, outdir: "dist", entryPoints: ["src/index.ts", "src/testing/index.ts"] });
await bundlePrograms("dist");
chmodSync("dist/cli/launch.cjs", 0o755);
