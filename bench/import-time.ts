/** Measures `import "cuda-ipc"` in a process that does nothing else, against an empty process. */
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import type { Row } from "./measure.js";

const RUNS = 15;
const GOAL_MS = 60;

export function importTime(): Row[] {
  const door = fileURLToPath(new URL("../../dist/index.js", import.meta.url));
  const program =
    "const t = performance.now(); await import(process.argv[1]); console.log(performance.now() - t);";
  let best = Number.POSITIVE_INFINITY;
  for (let run = 0; run < RUNS; run += 1) {
    const { stdout, status, stderr } = spawnSync(
      process.execPath,
      ["--input-type=module", "-e", program, door],
      {
        encoding: "utf8",
      },
    );
    if (status !== 0) throw new Error(stderr);
    best = Math.min(best, Number(stdout));
  }
  return [
    {
      what: 'import "cuda-ipc"',
      value: best,
      unit: "ms",
      goal: "under 60 ms",
      met: best < GOAL_MS,
    },
  ];
}
