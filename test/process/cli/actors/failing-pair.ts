/** A pair of sides, of which the producer fails while the consumer waits for it. */

import { meet, runPair } from "../../../../examples/pair.js";
import { LIMIT } from "../../../../examples/program.js";
import { CudaIpcError } from "../../../../src/index.js";

await runPair(
  import.meta.url,
  { elements: 1 },
  {
    async producer(options) {
      using _group = await meet(options);
      throw new CudaIpcError("VERIFICATION_FAILED", "1 element is wrong");
    },
    async consumer(options) {
      using group = await meet(options);
      await group.barrier(LIMIT);
    },
  },
);
