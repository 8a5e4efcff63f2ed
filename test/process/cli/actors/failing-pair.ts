/** A pair of sides. The producer fails, and its error arrives after that of the consumer. */
import { setTimeout } from "node:timers/promises";
import { meet, runPair } from "../../../../examples/pair.js";
import { LIMIT } from "../../../../examples/program.js";
import { CudaIpcError } from "../../../../src/index.js";

await runPair(
  import.meta.url,
  { elements: 1 },
  {
    async producer(options) {
      let consumer = 0;
      try {
        using group = await meet(options);
        [, consumer = 0] = (await group.allGather(process.pid, LIMIT)) as number[];
        throw new CudaIpcError("VERIFICATION_FAILED", "1 element is wrong");
      } finally {
        while (isRunning(consumer)) await setTimeout(5);
      }
    },
    async consumer(options) {
      using group = await meet(options);
      await group.allGather(process.pid, LIMIT);
      await group.barrier(LIMIT);
    },
  },
);

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}
