/**
 * The one error class for what a caller may act on, and its two kinds that carry the driver's or the system's own words.
 * Misuse by the programmer is a TypeError or RangeError and not here.
 */
import { type ErrorCode, errorCodes } from "./error-codes.js";

export class CudaIpcError extends Error {
  readonly code: ErrorCode;
  /**
   * One sentence that says how to fix it.
   * WHY a property and no getter: Node prints it with the code when nobody catches the error.
   */
  readonly remedy: string;

  constructor(
    code: ErrorCode,
    message: string,
    {
      remedy = errorCodes[code].remedy,
      ...options
    }: { readonly cause?: unknown; readonly remedy?: string | undefined } = {},
  ) {
    super(message, options);
    this.code = code;
    this.remedy = remedy;
  }

  get retryable(): boolean {
    return errorCodes[this.code].retryable;
  }
}

/** What the driver said. */
interface DriverFailure {
  readonly status: number;
  readonly statusName: string;
  readonly call: string;
  /** What to do, if more is known than the code says. */
  readonly remedy?: string | undefined;
}

/** A call of the CUDA driver that failed, with the driver's name of the status (`CUDA_ERROR_OUT_OF_MEMORY`). */
export class CudaError extends CudaIpcError {
  readonly status: number;
  readonly statusName: string;
  readonly call: string;

  constructor(code: ErrorCode, message: string, { status, statusName, call, remedy }: DriverFailure) {
    super(code, message, { remedy });
    this.status = status;
    this.statusName = statusName;
    this.call = call;
  }
}

/** A system call that failed, with the system's name of the error (`ENOSPC`). */
export class SystemError extends CudaIpcError {
  readonly errno: number;
  readonly errnoName: string;
  readonly call: string;

  constructor(
    code: ErrorCode,
    message: string,
    system: { readonly errno: number; readonly errnoName: string; readonly call: string },
    options?: { readonly cause?: unknown },
  ) {
    super(code, message, options);
    this.errno = system.errno;
    this.errnoName = system.errnoName;
    this.call = system.call;
  }
}

// WHY on the prototypes: the first line of a stack has the name that the error had when it was
// made.
for (const [name, type] of Object.entries({ CudaIpcError, CudaError, SystemError })) {
  Object.defineProperty(type.prototype, "name", { value: name, configurable: true, writable: true });
}

/** The message of a caught error, which need not be an `Error`. */
export function messageOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown);
}

/** True for an error of this project with the given code. */
export function hasCode(error: unknown, code: ErrorCode): error is CudaIpcError {
  return error instanceof CudaIpcError && error.code === code;
}
