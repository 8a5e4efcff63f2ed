// Compiles and runs the benchmarks: `npm run bench -- --device host --json bench.json`.
// Exits with 1 if a goal is missed.
import { spawnSync } from "node:child_process";
import { availableParallelism } from "node:os";
import { compile } from "./compile.mjs";

await compile();
// Builds the package, because one benchmark measures its import.
await import("./build.mjs");
// The same as in src/cli/launch.cts: the thread pool reads files, and keeps the size that it has at
// its first use.
const env = {
  ...process.env,
  UV_THREADPOOL_SIZE: String(Math.max(4, Math.min(16, availableParallelism()))),
};
const bench = spawnSync(process.execPath, ["build/bench/main.js", ...process.argv.slice(2)], {
  stdio: "inherit",
  env,
});
process.exit(bench.status ?? 1);
