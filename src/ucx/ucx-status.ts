/** What UCX's status codes mean for a caller. */
import type { ErrorCode } from "../base/error-codes.js";
import { CudaIpcError } from "../base/errors.js";

/** ucs_status_t in ucs/type/status.h. */
export const ucsStatus = {
  UCS_OK: 0,
  UCS_INPROGRESS: 1,
  UCS_ERR_IO_ERROR: -3,
  UCS_ERR_NO_MEMORY: -4,
  UCS_ERR_INVALID_PARAM: -5,
  UCS_ERR_UNREACHABLE: -6,
  UCS_ERR_INVALID_ADDR: -7,
  UCS_ERR_MESSAGE_TRUNCATED: -9,
  UCS_ERR_NO_ELEM: -12,
  UCS_ERR_NO_DEVICE: -14,
  UCS_ERR_BUSY: -15,
  UCS_ERR_CANCELED: -16,
  UCS_ERR_TIMED_OUT: -20,
  UCS_ERR_REJECTED: -23,
  UCS_ERR_NOT_CONNECTED: -24,
  UCS_ERR_CONNECTION_RESET: -25,
  UCS_ERR_ENDPOINT_TIMEOUT: -80,
} as const;

/** UCS_ERR_LAST: pointers from here on are negative statuses. */
const LOWEST = -100;

const names = new Map<number, string>(
  Object.entries(ucsStatus).map(([name, status]) => [status, name]),
);

const codes: Readonly<Record<number, ErrorCode>> = {
  [ucsStatus.UCS_ERR_NO_MEMORY]: "OUT_OF_MEMORY",
  [ucsStatus.UCS_ERR_UNREACHABLE]: "UNSUPPORTED",
  [ucsStatus.UCS_ERR_NO_ELEM]: "UNSUPPORTED",
  [ucsStatus.UCS_ERR_NO_DEVICE]: "UNSUPPORTED",
  [ucsStatus.UCS_ERR_INVALID_ADDR]: "INVALID_MESSAGE",
  [ucsStatus.UCS_ERR_MESSAGE_TRUNCATED]: "INVALID_MESSAGE",
  [ucsStatus.UCS_ERR_CANCELED]: "ABORTED",
};

/** UCX logs which call of the system failed, and returns UCS_ERR_IO_ERROR. */
const NO_ROOM =
  "The process may open no more files, or has no more memory. Raise its limit of open files " +
  "(ulimit -n), or use fewer links at a time.";

const UNREACHABLE =
  "UCX has no transport that reaches the other machine. `cuda-ipc doctor` shows those of this " +
  "one. Check UCX_TLS and the interface of the bridge on both machines.";

const NO_TRANSPORT =
  "UCX finds nothing here that it may use. Check UCX_TLS, and the interface that you named, or " +
  "UCX_NET_DEVICES if you named none.";

/** Remedies for errors that come from environment variables of this process. */
const ofEnvironment: Readonly<Record<number, string>> = {
  [ucsStatus.UCS_ERR_NO_ELEM]: NO_TRANSPORT,
  [ucsStatus.UCS_ERR_NO_DEVICE]: NO_TRANSPORT,
  [ucsStatus.UCS_ERR_INVALID_PARAM]:
    "UCX refuses the value of a variable. Check those whose names begin with UCX_.",
};

/** Unknown codes are failures of the connection, which UCX adds to from version to version. */
export function ucxError(attempt: string, status: number): CudaIpcError {
  const code = codes[status] ?? "PEER_GONE";
  return new CudaIpcError(code, `Cannot ${attempt}: UCX says ${statusName(status)}`, {
    remedy: status === ucsStatus.UCS_ERR_UNREACHABLE ? UNREACHABLE : undefined,
  });
}

function statusName(status: number): string {
  return names.get(status) ?? `status ${status}`;
}

/** As `checkStatus`, for a call that needs no other machine. */
export function checkLocalStatus(attempt: string, status: number): void {
  if (status === ucsStatus.UCS_OK) return;
  const message = `Cannot ${attempt}: UCX says ${statusName(status)}`;
  const remedy = ofEnvironment[status] ?? NO_ROOM;
  throw new CudaIpcError(codes[status] ?? "SYSTEM_ERROR", message, { remedy });
}

/** @throws for every status but UCS_OK */
export function checkStatus(attempt: string, status: number): void {
  if (status !== ucsStatus.UCS_OK) throw ucxError(attempt, status);
}

/** What a call that may go on returned: done, a failure, or a request to poll. */
export type Started =
  | { readonly state: "done" }
  | { readonly state: "failed"; readonly status: number }
  | { readonly state: "pending"; readonly request: bigint };

export function startedBy(pointer: bigint | number): Started {
  const value = BigInt.asIntN(64, BigInt(pointer));
  if (value === 0n) return { state: "done" };
  if (value < 0n && value >= BigInt(LOWEST)) return { state: "failed", status: Number(value) };
  return { state: "pending", request: BigInt.asUintN(64, value) };
}
