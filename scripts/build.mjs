// Compiles src to dist (what is published) and the examples, which `cuda-ipc demo` runs, to dist/examples; makes the command executable.
import { spawnSync } from "node:child_process";
import { chmodSync, rmSync } from "node:fs";

rmSync("dist", { recursive: true, force: true });
for (const project of ["tsconfig.build.json", "tsconfig.examples.json"]) {
  const tsc = spawnSync(process.execPath, ["node_modules/typescript/bin/tsc", "-p", project], { stdio: "inherit" });
  if (tsc.status !== 0) process.exit(tsc.status ?? 1);
}
chmodSync("dist/cli/launch.cjs", 0o755);
