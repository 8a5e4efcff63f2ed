/** The CUDA context that is current before, during and after the use of devices, on a libcuda in C. */
import { describe, it } from "node:test";
import { withLibcudaInC } from "../support/libcuda-in-c.js";
import { runActor } from "./run-actor.js";

const TITLE = "the current CUDA context on a libcuda in C";

withLibcudaInC(TITLE, ({ folder }) => {
  describe(TITLE, () => {
    // The actor opens libcuda by its name.
    process.env.LD_LIBRARY_PATH = folder;
    for (const thread of ["main", "worker"])
      it(`is the caller's after each call, and none is left after close(): ${thread}`, () =>
        runActor("current-context", [thread], []));
  });
});
