/** Bare handles in files, exchanged on a real GPU with a C program that uses CUDA alone. */
import { whyNoGpu } from "../conformance/gpu-presence.js";
import { describeRawHandleFiles } from "../process/ipc/describe-raw-handle-files.js";
import { CProgram } from "../support/c-program.js";

const program = CProgram.compile("gpu/c/handle.c");

describeRawHandleFiles({ device: "cuda:0", program, skip: whyNoGpu() ?? false });
