/** Pools on the libcuda in C of the conformance suite, in all processes. */
import { withLibcudaInC } from "../../support/libcuda-in-c.js";
import { describePools } from "./describe-pools.js";

withLibcudaInC("memory of pools between processes on a libcuda in C", ({ folder, openDriver }) =>
  describePools({ device: "cuda:0", openDriver, env: { LD_LIBRARY_PATH: folder } }),
);
