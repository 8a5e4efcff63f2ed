/** Whether the run-time compiler is installed. It tries to open it. */
import { hasCode } from "../../src/base/errors.js";
import { openCompiler } from "../../src/driver/cuda/nvrtc-compilation.js";

/**
 * Why tests that need it are skipped, or undefined. With REQUIRE_NVRTC=1 they are not: they fail
 * with the error itself.
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
