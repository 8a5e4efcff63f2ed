/** Turns a CUresult into a CudaError. Here alone a status of the driver becomes an error code. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import type { ErrorCode } from "../../base/error-codes.js";
import { CudaError } from "../../base/errors.js";
import { cuResult } from "../../ffi/cuda-constants.js";
import { decodeCString, type Libcuda } from "../../ffi/libcuda.js";

/**
 * After one of these the context answers every call with the same status until the process ends.
 */
const lost = [
  cuResult.CUDA_ERROR_ECC_UNCORRECTABLE,
  cuResult.CUDA_ERROR_NVLINK_UNCORRECTABLE,
  cuResult.CUDA_ERROR_CONTAINED,
  cuResult.CUDA_ERROR_ILLEGAL_ADDRESS,
  cuResult.CUDA_ERROR_LAUNCH_TIMEOUT,
  cuResult.CUDA_ERROR_CONTEXT_IS_DESTROYED,
  cuResult.CUDA_ERROR_ASSERT,
  cuResult.CUDA_ERROR_HARDWARE_STACK_ERROR,
  cuResult.CUDA_ERROR_ILLEGAL_INSTRUCTION,
  cuResult.CUDA_ERROR_MISALIGNED_ADDRESS,
  cuResult.CUDA_ERROR_INVALID_ADDRESS_SPACE,
  cuResult.CUDA_ERROR_INVALID_PC,
  cuResult.CUDA_ERROR_LAUNCH_FAILED,
  cuResult.CUDA_ERROR_MPS_RPC_FAILURE,
  cuResult.CUDA_ERROR_MPS_CLIENT_TERMINATED,
  cuResult.CUDA_ERROR_EXTERNAL_DEVICE,
];

const codes = new Map<number, ErrorCode>([
  [cuResult.CUDA_ERROR_OUT_OF_MEMORY, "OUT_OF_MEMORY"],
  [cuResult.CUDA_ERROR_STUB_LIBRARY, "DRIVER_NOT_FOUND"],
  [cuResult.CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER, "DRIVER_TOO_OLD"],
  [cuResult.CUDA_ERROR_NO_DEVICE, "DEVICE_NOT_FOUND"],
  [cuResult.CUDA_ERROR_INVALID_DEVICE, "DEVICE_NOT_FOUND"],
  [cuResult.CUDA_ERROR_NOT_PERMITTED, "UNSUPPORTED"],
  [cuResult.CUDA_ERROR_NOT_SUPPORTED, "UNSUPPORTED"],
  [cuResult.CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, "PEER_ACCESS_UNSUPPORTED"],
  [cuResult.CUDA_ERROR_TOO_MANY_PEERS, "PEER_ACCESS_UNSUPPORTED"],
  [cuResult.CUDA_ERROR_INVALID_IMAGE, "INVALID_MODULE"],
  [cuResult.CUDA_ERROR_NO_BINARY_FOR_GPU, "INVALID_MODULE"],
  [cuResult.CUDA_ERROR_INVALID_PTX, "INVALID_MODULE"],
  [cuResult.CUDA_ERROR_UNSUPPORTED_PTX_VERSION, "INVALID_MODULE"],
  [cuResult.CUDA_ERROR_MPS_CONNECTION_FAILED, "MPS_UNAVAILABLE"],
  [cuResult.CUDA_ERROR_MPS_SERVER_NOT_READY, "MPS_UNAVAILABLE"],
  [cuResult.CUDA_ERROR_MPS_MAX_CLIENTS_REACHED, "MPS_UNAVAILABLE"],
  [cuResult.CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED, "MPS_UNAVAILABLE"],
  ...lost.map((status): [number, ErrorCode] => [status, "DEVICE_LOST"]),
]);

const hints = new Map<number, string>([
  [
    cuResult.CUDA_ERROR_STUB_LIBRARY,
    "this libcuda is the toolkit's stub for linking, not the driver",
  ],
  [cuResult.CUDA_ERROR_DEVICE_UNAVAILABLE, "another process holds the device in exclusive mode"],
  [cuResult.CUDA_ERROR_NO_DEVICE, "there is no GPU, or CUDA_VISIBLE_DEVICES hides it"],
  [
    cuResult.CUDA_ERROR_SYSTEM_NOT_READY,
    "a service of the driver (nvidia-fabricmanager) is not running",
  ],
  [
    cuResult.CUDA_ERROR_SYSTEM_DRIVER_MISMATCH,
    "libcuda and the kernel's driver have different versions; restart the machine after a " +
      "driver update",
  ],
  [
    cuResult.CUDA_ERROR_ILLEGAL_ADDRESS,
    "a kernel touched memory that is not mapped, or wrote to read-only memory",
  ],
  [
    cuResult.CUDA_ERROR_MISALIGNED_ADDRESS,
    "a kernel used an address that is not aligned for what it accessed",
  ],
  [cuResult.CUDA_ERROR_ASSERT, "an assert() of a kernel failed"],
  [
    cuResult.CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
    "the PTX is newer than this driver; compile for the device itself (Program.compile with a " +
      "device gives a cubin), use an older compiler, or install a newer driver",
  ],
  [cuResult.CUDA_ERROR_NO_BINARY_FOR_GPU, "the code was compiled for another architecture"],
  [
    cuResult.CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES,
    "the block has more threads than the kernel's registers and shared memory allow",
  ],
  [
    cuResult.CUDA_ERROR_JIT_COMPILER_NOT_FOUND,
    "libnvidia-ptxjitcompiler is not installed beside libcuda",
  ],
  [cuResult.CUDA_ERROR_MPS_CONNECTION_FAILED, "the MPS control daemon does not answer"],
  [
    cuResult.CUDA_ERROR_MPS_SERVER_NOT_READY,
    "the MPS server is starting, or recovering from a fault of a client",
  ],
  [cuResult.CUDA_ERROR_MPS_MAX_CLIENTS_REACHED, "the MPS server has reached its limit of clients"],
  [
    cuResult.CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED,
    "the MPS server has reached its limit of connections",
  ],
  [cuResult.CUDA_ERROR_UNKNOWN, "at start this often means that /dev/nvidia-uvm is missing"],
]);

const names = new Map<number, string>(
  Object.entries(cuResult).map(([name, status]) => [status, name]),
);

export interface FailedCall {
  readonly status: number;
  readonly call: string;
  /** The attempt in words: `map 2097152 bytes on cuda:0`. */
  readonly attempt: string;
  /** Replaces the code of the status if the caller knows better. */
  readonly code?: ErrorCode | undefined;
  readonly mps: MpsUse;
}

export function cudaError(
  cuda: Libcuda,
  { status, call, attempt, code, mps }: FailedCall,
): CudaError {
  const statusName = nameOf(cuda, status);
  const context = lost.some((it) => it === status) ? lostContext(status, mps) : undefined;
  const hint = hintsOf(status, context).map((it) => `; ${it}`);
  const found = `${call} failed with ${statusName} (${status})${hint.join("")}`;
  return new CudaError(code ?? errorCodeOf(status), `Cannot ${attempt}: ${found}`, {
    status,
    statusName,
    call,
    remedy: context?.remedy,
  });
}

function hintsOf(status: number, context: LostContext | undefined): string[] {
  const hint = hints.get(status);
  // Under MPS the status may be about a kernel of another process, so its hint could mislead.
  const hintOfStatus = hint === undefined || context?.remedy !== undefined ? [] : [hint];
  return context === undefined ? hintOfStatus : [...hintOfStatus, context.found];
}

/** Returns the error code for a status. */
export function errorCodeOf(status: number): ErrorCode {
  return codes.get(status) ?? "CUDA_ERROR";
}

function nameOf(cuda: Libcuda, status: number): string {
  const holder = new BigUint64Array(1);
  const found =
    cuda.cuGetErrorName(status, holder) === cuResult.CUDA_SUCCESS
      ? decodeCString(holder)
      : undefined;
  return found ?? names.get(status) ?? "an unknown status";
}

/**
 * Whether a device's contexts belong to an MPS server; unknown before the attribute MPS_ENABLED.
 */
export type MpsUse = "in use" | "not in use" | "unknown";

interface LostContext {
  /** Follows the driver's name of the status. */
  readonly found: string;
  /** Replaces the remedy of DEVICE_LOST; undefined to keep it. */
  readonly remedy: string | undefined;
}

/** Where MPS listens by default: https://docs.nvidia.com/deploy/mps/index.html */
const DEFAULT_PIPE_FOLDER = "/tmp/nvidia-mps";

const ofMps: readonly number[] = [
  cuResult.CUDA_ERROR_MPS_RPC_FAILURE,
  cuResult.CUDA_ERROR_MPS_CLIENT_TERMINATED,
];

const LOST = "this process's context on the device is lost, and every later call fails alike";

/**
 * Explains a lost context. Under MPS all clients of a server lose their contexts together, so the
 * process at fault may be another one: https://docs.nvidia.com/deploy/mps/index.html
 */
function lostContext(status: number, mps: MpsUse): LostContext {
  if (mps === "in use" || ofMps.includes(status)) {
    return {
      found:
        `${LOST}; under MPS that happens to every client if one is killed or faults while ` +
        "its kernel runs",
      remedy:
        "Start this process again, open by name and go on: a client of its MPS server was killed " +
        "or faulted, and took the contexts of all others with it. Memory and names are unharmed.",
    };
  }
  const pipes = process.env.CUDA_MPS_PIPE_DIRECTORY ?? DEFAULT_PIPE_FOLDER;
  const mayBeMps = mps === "unknown" && existsSync(join(pipes, "control"));
  const other = mayBeMps
    ? `; an MPS server listens in ${pipes}: if it serves this process, ` +
      "another client may be at fault"
    : "";
  const advice = "restart this process; memory that it shared with others is unharmed";
  const found = `${LOST}: ${advice}${other}`;
  return { found, remedy: undefined };
}
