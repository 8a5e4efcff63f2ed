/** Turns NOT_FOUND of an announced object into STALE_HANDLE. */
import { CudaIpcError, hasCode, messageOf } from "../../base/errors.js";

/**
 * Calls `open`. WHY NOT_FOUND becomes STALE_HANDLE: the name was there when it was announced, so it
 * has ended or is being replaced, and the other machine looks again.
 * @throws STALE_HANDLE; what `open` throws
 */
export async function openAnnounced<T>(attempt: string, open: () => Promise<T>): Promise<T> {
  try {
    return await open();
  } catch (error) {
    if (!hasCode(error, "NOT_FOUND")) throw error;
    const message = `Cannot ${attempt}: ${messageOf(error)}`;
    throw new CudaIpcError("STALE_HANDLE", message, { cause: error });
  }
}
