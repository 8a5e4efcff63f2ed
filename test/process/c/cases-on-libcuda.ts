/** Run by c-on-libcuda.test.ts, with the libcuda in C. */
import { describeGpuClient } from "./gpu-cases.js";

describeGpuClient("the client in C on a libcuda in C", { skip: false, sanitize: true });
