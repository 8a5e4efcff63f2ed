/** Checks at the start of every call that the host driver is open and the ordinal is its device. */
import { checkInteger } from "../../base/bytes.js";
import { CudaIpcError } from "../../base/errors.js";

export class HostSession {
  #open = true;

  /** @throws CLOSED, DEVICE_NOT_FOUND */
  use(ordinal = 0): void {
    if (!this.#open) throw new CudaIpcError("CLOSED", "Cannot use the host driver: it was closed");
    if (checkInteger("ordinal", ordinal, 0) === 0) return;
    throw new CudaIpcError(
      "DEVICE_NOT_FOUND",
      `Cannot find host device ${ordinal}: there is only device 0`,
    );
  }

  close(): void {
    this.#open = false;
  }
}
