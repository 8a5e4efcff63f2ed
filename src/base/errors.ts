/**
 * The one error class for what a caller may act on, and its two kinds that carry the driver's or the system's own words.
 * Misuse by the programmer is a TypeError or RangeError and not here.
 */
import { type ErrorCode, errorCodes } from "./error-codes.js";

export class CudaIpcError extends Error {
  readonly code: ErrorCode;

  constructor(code: ErrorCode, message: string, options?: { readonly cause?: unknown }) {
    super(message, options);
    this.name = "CudaIpcError";
    this.code = code;
  }

  /** What to do about an error of this code, in one sentence. */
  get remedy(): string {
    return errorCodes[this.code].remedy;
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
  readonly #remedy: string | undefined;

  constructor(code: ErrorCode, message: string, { status, statusName, call, remedy }: DriverFailure) {
    super(code, message);
    this.name = "CudaError";
    this.status = status;
    this.statusName = statusName;
    this.call = call;
    this.#remedy = remedy;
  }

  override get remedy(): string {
    return this.#remedy ?? super.remedy;
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
    this.name = "SystemError";
    this.errno = system.errno;
    this.errnoName = system.errnoName;
    this.call = system.call;
  }
}

/** The message of a caught error, which need not be an `Error`. */
export function messageOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown);
}

/** True for an error of this project with the given code. */
export function hasCode(error: unknown, code: ErrorCode): error is CudaIpcError {
  return error instanceof CudaIpcError && error.code === code;
}
