/** Errors of files: invalid content, and system errors mapped to the codes of this package. */
import type { ErrorCode } from "../base/error-codes.js";
import { CudaIpcError, SystemError } from "../base/errors.js";

/** @param problem what was found and wanted: `header claims 8192 bytes, file has 4096` */
export function invalidFile(fileName: string, problem: string, cause?: unknown): CudaIpcError {
  return new CudaIpcError("INVALID_FILE", `Cannot read ${JSON.stringify(fileName)}: ${problem}`, {
    cause,
  });
}

export function unsupportedDType(fileName: string, problem: string): CudaIpcError {
  return new CudaIpcError(
    "UNSUPPORTED_DTYPE",
    `Cannot read ${JSON.stringify(fileName)}: ${problem}`,
  );
}

const codes: Readonly<Record<string, ErrorCode>> = {
  ENOENT: "INVALID_FILE",
  ENOTDIR: "INVALID_FILE",
  EISDIR: "INVALID_FILE",
  ENAMETOOLONG: "INVALID_FILE",
  ELOOP: "INVALID_FILE",
  EEXIST: "FILE_EXISTS",
  ENOSPC: "DISK_FULL",
  EDQUOT: "DISK_FULL",
  EFBIG: "LIMIT_EXCEEDED",
  EACCES: "PERMISSION_DENIED",
  EPERM: "PERMISSION_DENIED",
  EROFS: "PERMISSION_DENIED",
  EMFILE: "TOO_MANY_FDS",
  ENFILE: "TOO_MANY_FDS",
};

/**
 * Maps an error of Node's file functions to a SystemError with a code. Returns any other error as
 * it is.
 * @param attempt in words: `read "x.npy"`
 */
export function fileSystemError(attempt: string, error: unknown): unknown {
  if (!isErrnoException(error)) return error;
  const { errno, code: errnoName, syscall: call = "unknown call" } = error;
  const code = codes[errnoName] ?? "SYSTEM_ERROR";
  const words = error.message.replace(/^[A-Z0-9]+: /, "").replace(/, .*$/s, "");
  return new SystemError(
    code,
    `Cannot ${attempt}: ${words} (${errnoName})`,
    { errno: Math.abs(errno), errnoName, call },
    { cause: error },
  );
}

interface ErrnoException extends Error {
  readonly errno: number;
  readonly code: string;
  readonly syscall?: string;
}

function isErrnoException(error: unknown): error is ErrnoException {
  // An error of this package has an errno too, and already has its code.
  if (error instanceof CudaIpcError || !(error instanceof Error)) return false;
  return "errno" in error && typeof error.errno === "number" && "code" in error;
}
