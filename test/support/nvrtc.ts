/** Whether the run-time compiler is installed, decided by opening it. */
import { hasCode } from "../../src/base/errors.js";
import { openCompiler } from "../../src/driver/cuda/nvrtc-compilation.js";

/**
 * The reason to skip tests that need it, or undefined. With REQUIRE_NVRTC=1 nothing is skipped, and
 * the tests fail with the error itself.
 */
export function whyNoNvrtc(): string | undefined {
  if (process.env.REQUIRE_NVRTC === "1") return undefined;
  try {
    openCompiler();
    return undefined;
  } catch (error) {
    if (hasCode(error, "NVRTC_NOT_FOUND")) return error.message;
    throw error;
  }
}
