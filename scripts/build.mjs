// Compiles src to dist (what is published) and the examples, which `cuda-ipc demo` runs, to dist/examples; makes one file of what
// each door of the package imports, and the command executable.
import { spawnSync } from "node:child_process";
import { chmodSync, rmSync } from "node:fs";
import { build } from "esbuild";

rmSync("dist", { recursive: true, force: true });
for (const project of ["tsconfig.build.json", "tsconfig.examples.json"]) {
  const tsc = spawnSync(process.execPath, ["node_modules/typescript/bin/tsc", "-p", project], { stdio: "inherit" });
  if (tsc.status !== 0) process.exit(tsc.status ?? 1);
}
// WHY bundled: importing some 200 files takes three times as long as one. What both doors use is in chunks that they share, so that an
// error of one is an instance of the other's class. A hub and its keeper start sooner for the same reason.
await build({
  entryPoints: ["dist/index.js", "dist/testing/index.js", "dist/hub/main.js", "dist/keeper/main.js"],
  outdir: "dist",
  outbase: "dist",
  allowOverwrite: true,
  bundle: true,
  splitting: true,
  format: "esm",
  platform: "node",
  target: "node20.19",
  packages: "external",
  logLevel: "warning",
});
chmodSync("dist/cli/launch.cjs", 0o755);
