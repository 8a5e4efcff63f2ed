import { whyNoGpu } from "../conformance/gpu-presence.js";
import { describeModelFile } from "../model-file/describe-model-file.js";

describeModelFile("cuda:0", "vmm", whyNoGpu() ?? false);
