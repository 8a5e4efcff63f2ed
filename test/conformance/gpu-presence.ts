/** Whether there is a GPU to test on, decided by opening the driver. */
import { hasCode } from "../../src/base/errors.js";
import { createCudaDriver } from "../../src/driver/cuda/cuda-driver.js";

/**
 * The reason to skip tests that need a GPU, or undefined if there is one.
 * With REQUIRE_GPU=1 nothing is skipped, and the tests fail with the driver's own message.
 */
export function whyNoGpu(): string | undefined {
  if (process.env.REQUIRE_GPU === "1") return undefined;
  try {
    createCudaDriver().close();
    return undefined;
  } catch (error) {
    if (hasCode(error, "DRIVER_NOT_FOUND") || hasCode(error, "DEVICE_NOT_FOUND"))
      return error.message;
    throw error;
  }
}
