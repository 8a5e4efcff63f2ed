/**
 * The tests of the Python package that use GPU memory, on this GPU: memory, and channels and
 * services in the order of streams. Elsewhere they run on the libcuda that is written in C.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { whyNoGpu } from "../conformance/gpu-presence.js";
import { GPU_TESTS, noPytest, runPytest } from "../support/run-pytest.js";

test("Python's tests of GPU memory and of streams pass on this GPU", {
  skip: whyNoGpu() ?? noPytest,
  timeout: 580_000,
}, async () => {
  // Several streams wait at a time. With few queues one of them could hold up another.
  const said = await runPytest(GPU_TESTS, { CUDA_DEVICE_MAX_CONNECTIONS: "32" });
  assert.match(said, /\d+ passed/);
});
