// Compiles and runs the benchmarks: `npm run bench -- --device host --json bench.json`. Exits 1 where a goal was missed.
import { spawnSync } from "node:child_process";
import { availableParallelism } from "node:os";
import { compile } from "./compile.mjs";

await compile();
// The package as it is published, whose import is measured.
await import("./build.mjs");
// WHY: as the command does it (src/cli/launch.cts): the thread pool reads files, and its size is fixed at its first use.
const env = { ...process.env, UV_THREADPOOL_SIZE: String(Math.max(4, Math.min(16, availableParallelism()))) };
const bench = spawnSync(process.execPath, ["build/bench/main.js", ...process.argv.slice(2)], { stdio: "inherit", env });
process.exit(bench.status ?? 1);
