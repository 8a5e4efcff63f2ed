/**
 * The error class for failures that a caller can act on, and its subclasses for CUDA and the
 * operating system. Programming mistakes are TypeErrors and RangeErrors instead.
 */
import { type ErrorCode, errorCodes } from "./error-codes.js";

export class CudaIpcError extends Error {
  readonly code: ErrorCode;
  /**
   * One sentence that says how to fix it.
   * WHY a property and not a getter: Node then prints it for an uncaught error.
   */
  readonly remedy: string;

  constructor(
    code: ErrorCode,
    message: string,
    {
      remedy = errorCodes[code].remedy,
      cause,
    }: { readonly cause?: unknown; readonly remedy?: string | undefined } = {},
  ) {
    // Node would print `[cause]: undefined`.
    super(message, cause === undefined ? undefined : { cause });
    this.code = code;
    this.remedy = remedy;
  }

  get retryable(): boolean {
    return errorCodes[this.code].retryable;
  }
}

/** The driver's own report. */
interface DriverFailure {
  readonly status: number;
  readonly statusName: string;
  readonly call: string;
  /** Set if more is known than the code says. */
  readonly remedy?: string | undefined;
}

/**
 * A failed call of the CUDA driver, with the driver's name of the status
 * (`CUDA_ERROR_OUT_OF_MEMORY`).
 */
export class CudaError extends CudaIpcError {
  readonly status: number;
  readonly statusName: string;
  readonly call: string;

  constructor(
    code: ErrorCode,
    message: string,
    { status, statusName, call, remedy }: DriverFailure,
  ) {
    super(code, message, { remedy });
    this.status = status;
    this.statusName = statusName;
    this.call = call;
  }
}

/** Remedies for errors of the system whose code says too little. */
const remedies: Readonly<Record<string, string>> = {
  EFBIG: "Raise the limit for the size of files: `ulimit -f unlimited`.",
  EPROTOTYPE: "Another program listens there. Set CUDA_IPC_SOCKET to the hub's socket.",
};

/** A failed system call, with the system's name of the error (`ENOSPC`). */
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
    super(code, message, { remedy: remedies[system.errnoName], ...options });
    this.errno = system.errno;
    this.errnoName = system.errnoName;
    this.call = system.call;
  }
}

// WHY on the prototypes: the first line of a stack shows the name at the time of its creation.
for (const [name, type] of Object.entries({ CudaIpcError, CudaError, SystemError })) {
  Object.defineProperty(type.prototype, "name", {
    value: name,
    configurable: true,
    writable: true,
  });
}

/** The message of a thrown value, which need not be an `Error`. */
export function messageOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown);
}

/** True for an error of this project with this code. */
export function hasCode(error: unknown, code: ErrorCode): error is CudaIpcError {
  return error instanceof CudaIpcError && error.code === code;
}

/** A copy of an error that several calls throw, so that each throws its own stack. */
export function again(error: unknown): unknown {
  if (!(error instanceof CudaIpcError)) return error;
  const { code, message, cause, remedy } = error;
  return new CudaIpcError(code, message, { cause, remedy });
}

/** Lines of a stack that are looked at for the caller. */
const FRAMES_MAX = 50;

/**
 * Adds the lines of the caller to the stack of an error that was made in a callback, or deep in the
 * package: V8 keeps ten lines, and for a timer or a socket none of them is the user's. Call it
 * where the caller awaits, after an `await`. Returns the error.
 */
export function withCallers(error: unknown): unknown {
  if (!(error instanceof Error) || !Object.isExtensible(error)) return error;
  const here = { stack: "" };
  const { stackTraceLimit } = Error;
  Error.stackTraceLimit = FRAMES_MAX;
  Error.captureStackTrace(here, withCallers);
  Error.stackTraceLimit = stackTraceLimit;
  // A program may replace Error.prepareStackTrace, whose results need not be text.
  const { stack } = error;
  if (typeof stack !== "string" || typeof here.stack !== "string") return error;
  const known = new Set(stack.split("\n"));
  const missing = here.stack
    .split("\n")
    .slice(1)
    .filter((line) => !known.has(line));
  if (missing.length > 0) error.stack = [stack, ...missing].join("\n");
  return error;
}
