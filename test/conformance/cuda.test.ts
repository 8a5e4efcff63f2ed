import { it } from "node:test";
import { createCudaDriver } from "../../src/driver/cuda/cuda-driver.js";
import { describeConformance } from "./describe-conformance.js";
import { whyNoGpu } from "./gpu-presence.js";

const name = "conformance of the CUDA driver";
const reason = whyNoGpu();
if (reason === undefined) describeConformance(name, () => createCudaDriver());
else it(name, { skip: reason }, () => {});
