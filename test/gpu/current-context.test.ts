/** The CUDA context that is current before, during and after the use of all GPUs. */
import { describe, it } from "node:test";
import { whyNoGpu } from "../conformance/gpu-presence.js";
import { runActor } from "../conformance/run-actor.js";

describe("the current CUDA context on GPUs", { skip: whyNoGpu() ?? false }, () => {
  for (const thread of ["main", "worker"])
    it(`is the caller's after each call, and none is left after close(): ${thread}`, () =>
      runActor("current-context", [thread], []));
});
