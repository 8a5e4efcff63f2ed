/** Whether there is a GPU to test on, decided by opening the driver and not by guessing. */
import { hasCode } from "../../src/base/errors.js";
import { createCudaDriver } from "../../src/driver/cuda/cuda-driver.js";

/**
 * Why tests that need a GPU are skipped, or undefined where there is one.
 * With REQUIRE_GPU=1 nothing is skipped: the tests then fail with the driver's own words.
 */
export function whyNoGpu(): string | undefined {
  if (process.env.REQUIRE_GPU === "1") return undefined;
  try {
    createCudaDriver().close();
    return undefined;
  } catch (error) {
    if (hasCode(error, "DRIVER_NOT_FOUND") || hasCode(error, "DEVICE_NOT_FOUND")) return error.message;
    throw error;
  }
}
