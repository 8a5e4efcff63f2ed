/** GPU memory by a descriptor on a Unix socket, exchanged with a C program that uses CUDA alone. */
import { whyNoGpu } from "../conformance/gpu-presence.js";
import { describePassedFds } from "../process/peer/describe-passed-fds.js";
import { CProgram } from "../support/c-program.js";

describePassedFds({
  device: "cuda:0",
  program: CProgram.compile("gpu/c/fd-peer.c"),
  byteLength: 2 * 1024 * 1024,
  skip: whyNoGpu() ?? false,
});
