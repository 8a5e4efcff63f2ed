/** What it means when the driver refuses the handle of an event or of memory. */
import type { CudaError } from "../../base/errors.js";
import { cuResult } from "../../ffi/cuda-constants.js";
import type { CudaSession } from "./cuda-session.js";
import { errorCodeOf } from "./cuda-status.js";

/** Where drivers have put the exporter's process number so far; nothing promises it. */
const PID_OFFSET = 8;

/**
 * WHY the process number only after the driver refused: it shows what INVALID_CONTEXT stands for in a context that is current, and
 * a handle of a process with our number in another container is refused in the same way.
 * @param what `memory on cuda:0`
 */
export function importRefusal(
  session: CudaSession,
  refusal: { readonly status: number; readonly call: string; readonly handle: Uint8Array; readonly what: string },
): CudaError {
  const { status, call, handle, what } = refusal;
  if (status === cuResult.CUDA_ERROR_INVALID_CONTEXT && exporterPid(handle) === process.pid) {
    const whose = `${what} by a handle of this process, or of one with its number (${process.pid}) in another container`;
    return session.failure(status, call, `import ${whose}`, "OWN_HANDLE");
  }
  if (status === cuResult.CUDA_ERROR_ALREADY_MAPPED) {
    return session.failure(status, call, `import ${what}, which this process has open elsewhere`, "IN_USE");
  }
  const code = errorCodeOf(status);
  // WHY: the driver has several words for a handle that is damaged, freed, or of a process that ended.
  return session.failure(status, call, `import ${what}`, code === "CUDA_ERROR" ? "INVALID_HANDLE" : code);
}

function exporterPid(handle: Uint8Array): number {
  return new DataView(handle.buffer, handle.byteOffset, handle.byteLength).getUint32(PID_OFFSET, true);
}
