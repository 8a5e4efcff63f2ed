/** Bad handles, which must open nothing, on a real GPU. */
import { whyNoGpu } from "../conformance/gpu-presence.js";
import { describeBadHandles } from "../process/ipc/describe-bad-handles.js";

describeBadHandles({ device: "cuda:0", skip: whyNoGpu() ?? false });
