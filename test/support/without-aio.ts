/** Stands in for a user who has taken all of fs.aio-max-nr. */
import { constants } from "node:os";
import { fileURLToPath } from "node:url";
import { interceptLibc } from "../../src/ffi/intercept-libc.js";

const IO_SETUP = process.arch === "arm64" ? 0 : 206;

/** A command before another one, which then has no AIO. */
export const withoutAio: readonly string[] = [
  "python3",
  fileURLToPath(new URL("../../../test/support/without-aio.py", import.meta.url)),
];

/**
 * Refuses AIO in this process.
 * @param onCall sees each call of the C library
 * @returns ends it
 */
export function refuseAio(onCall: (call: string) => void = () => {}): () => void {
  return interceptLibc((call, values) => {
    onCall(call);
    return call === "kernel" && values[0] === IO_SETUP ? constants.errno.EAGAIN : undefined;
  });
}
