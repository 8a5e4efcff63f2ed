/** The client in C on a real GPU. test/process/c/c-on-libcuda.test.ts does the same without one. */
import { whyNoGpu } from "../conformance/gpu-presence.js";
import { skip } from "../process/c/c-programs.js";
import { describeGpuClient } from "../process/c/gpu-cases.js";

describeGpuClient("the client in C on cuda:0", { skip: whyNoGpu() ?? skip, sanitize: false });
