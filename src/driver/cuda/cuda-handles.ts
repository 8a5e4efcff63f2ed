/** Interprets a driver's refusal of the handle of an event or of memory. */
import type { CudaError } from "../../base/errors.js";
import { cuResult } from "../../ffi/cuda-constants.js";
import type { CudaSession } from "./cuda-session.js";
import { errorCodeOf } from "./cuda-status.js";

/** Where drivers have put the exporter's pid so far. Nothing promises it. */
const PID_OFFSET = 8;

/**
 * Makes the error for a refused handle. WHY the pid is read only now: the driver also refuses a
 * handle of another container's process that happens to have our pid.
 * @param what `memory on cuda:0`
 */
export function importRefusal(
  session: CudaSession,
  refusal: {
    readonly status: number;
    readonly call: string;
    readonly handle: Uint8Array;
    readonly what: string;
  },
): CudaError {
  const { status, call, handle, what } = refusal;
  if (status === cuResult.CUDA_ERROR_INVALID_CONTEXT && exporterPid(handle) === process.pid) {
    const other = `or of one with its number (${process.pid}) in another container`;
    const attempt = `import ${what} by a handle of this process, ${other}`;
    return session.failure(status, call, attempt, "OWN_HANDLE");
  }
  if (status === cuResult.CUDA_ERROR_ALREADY_MAPPED) {
    const attempt = `import ${what}, which this process has open elsewhere`;
    return session.failure(status, call, attempt, "IN_USE");
  }
  const code = errorCodeOf(status);
  // Drivers report a damaged or freed handle, and one of an ended process, in several ways.
  const blamed = code === "CUDA_ERROR" ? "INVALID_HANDLE" : code;
  return session.failure(status, call, `import ${what}`, blamed);
}

function exporterPid(handle: Uint8Array): number {
  const view = new DataView(handle.buffer, handle.byteOffset, handle.byteLength);
  return view.getUint32(PID_OFFSET, true);
}
