/** Why the calls of a closed writer or reader of a channel fail. */
import { CudaIpcError } from "../base/errors.js";

export class Ending {
  /** Undefined if its user closed it. */
  reason: CudaIpcError | undefined;

  error(attempt: string): CudaIpcError {
    const { code = "CLOSED", message = "it was closed" } = this.reason ?? {};
    return new CudaIpcError(code, `Cannot ${attempt}: ${message}`);
  }
}
