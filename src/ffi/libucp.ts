/**
 * libucp, the library of UCX that moves bytes between machines: its symbols and signatures. No
 * logic. https://openucx.readthedocs.io/
 */
import { CudaIpcError } from "../base/errors.js";
import { type Address, koffi } from "./koffi.js";
import type { SharedLibrary } from "./libcuda.js";

/** ucs_status_t: one signed byte in C (a packed enum), so it is declared as `int8_t`. */
type Status = number;

/**
 * A request: 0 if the call is done, a status from -1 to -99 as a pointer, or a handle. koffi gives
 * small values as numbers.
 */
export type RequestPointer = bigint | number;

export interface Libucp {
  ucp_get_version(major: Uint32Array, minor: Uint32Array, release: Uint32Array): void;
  ucp_config_read(prefix: null, file: null, config: BigUint64Array): Status;
  ucp_config_modify(config: bigint, name: string, value: string): Status;
  ucp_config_release(config: bigint): void;
  ucp_init_version(
    major: number,
    minor: number,
    params: Uint8Array,
    config: bigint,
    context: BigUint64Array,
  ): Status;
  ucp_cleanup(context: bigint): void;
  ucp_context_print_info(context: bigint, file: bigint): void;
  ucp_worker_create(context: bigint, params: Uint8Array, worker: BigUint64Array): Status;
  ucp_worker_destroy(worker: bigint): void;
  ucp_worker_get_address(
    worker: bigint,
    address: BigUint64Array,
    byteLength: BigUint64Array,
  ): Status;
  ucp_worker_release_address(worker: bigint, address: bigint): void;
  ucp_worker_get_efd(worker: bigint, fd: Int32Array): Status;
  ucp_worker_progress(worker: bigint): number;
  ucp_worker_arm(worker: bigint): Status;
  ucp_ep_create(worker: bigint, params: Uint8Array, endpoint: BigUint64Array): Status;
  ucp_ep_close_nbx(endpoint: bigint, params: Uint8Array): RequestPointer;
  ucp_tag_send_nbx(
    endpoint: bigint,
    buffer: Address,
    byteLength: number,
    tag: bigint,
    params: Uint8Array,
  ): RequestPointer;
  ucp_tag_recv_nbx(
    worker: bigint,
    buffer: Address,
    byteLength: number,
    tag: bigint,
    mask: bigint,
    params: Uint8Array,
  ): RequestPointer;
  /** Takes an unexpected message out of the queue if `remove` is 1. Returns 0 if there is none. */
  ucp_tag_probe_nb(
    worker: bigint,
    tag: bigint,
    mask: bigint,
    remove: number,
    info: BigUint64Array,
  ): bigint | number;
  ucp_tag_msg_recv_nbx(
    worker: bigint,
    buffer: Address,
    byteLength: number,
    message: bigint | number,
    params: Uint8Array,
  ): RequestPointer;
  ucp_tag_recv_request_test(request: bigint, info: BigUint64Array): Status;
  ucp_request_check_status(request: bigint): Status;
  ucp_request_cancel(worker: bigint, request: bigint): void;
  ucp_request_free(request: bigint): void;
}

const symbols: Readonly<Record<keyof Libucp, readonly [result: string, ...parameters: string[]]>> =
  {
    ucp_get_version: ["void", "void*", "void*", "void*"],
    ucp_config_read: ["int8_t", "void*", "void*", "void*"],
    ucp_config_modify: ["int8_t", "uint64_t", "str", "str"],
    ucp_config_release: ["void", "uint64_t"],
    ucp_init_version: ["int8_t", "uint", "uint", "void*", "uint64_t", "void*"],
    ucp_cleanup: ["void", "uint64_t"],
    ucp_context_print_info: ["void", "uint64_t", "uint64_t"],
    ucp_worker_create: ["int8_t", "uint64_t", "void*", "void*"],
    ucp_worker_destroy: ["void", "uint64_t"],
    ucp_worker_get_address: ["int8_t", "uint64_t", "void*", "void*"],
    ucp_worker_release_address: ["void", "uint64_t", "uint64_t"],
    ucp_worker_get_efd: ["int8_t", "uint64_t", "void*"],
    ucp_worker_progress: ["uint", "uint64_t"],
    ucp_worker_arm: ["int8_t", "uint64_t"],
    ucp_ep_create: ["int8_t", "uint64_t", "void*", "void*"],
    ucp_ep_close_nbx: ["uint64_t", "uint64_t", "void*"],
    ucp_tag_send_nbx: ["uint64_t", "uint64_t", "void*", "size_t", "uint64_t", "void*"],
    ucp_tag_recv_nbx: ["uint64_t", "uint64_t", "void*", "size_t", "uint64_t", "uint64_t", "void*"],
    ucp_tag_probe_nb: ["uint64_t", "uint64_t", "uint64_t", "uint64_t", "int", "void*"],
    ucp_tag_msg_recv_nbx: ["uint64_t", "uint64_t", "void*", "size_t", "uint64_t", "void*"],
    ucp_tag_recv_request_test: ["int8_t", "uint64_t", "void*"],
    ucp_request_check_status: ["int8_t", "uint64_t"],
    ucp_request_cancel: ["void", "uint64_t", "uint64_t"],
    ucp_request_free: ["void", "uint64_t"],
  };

/** The functions of an opened library. @throws ENGINE_NOT_FOUND if it is too old */
export function resolveLibucp(library: SharedLibrary): Libucp {
  const functions: Record<string, unknown> = {};
  for (const [name, [result, ...parameters]] of Object.entries(symbols)) {
    try {
      functions[name] = library.func(name, result, parameters);
    } catch (cause) {
      const message = `it lacks ${name}, wanted UCX 1.13 or newer`;
      throw new CudaIpcError("ENGINE_NOT_FOUND", message, { cause });
    }
  }
  return functions as unknown as Libucp;
}

/**
 * Registers a handler for failed endpoints. UCX calls it inside `ucp_worker_progress`, so it must
 * not throw.
 */
export function registerEndpointHandler(handler: (endpoint: bigint, status: Status) => void): {
  readonly address: Address;
  unregister(): void;
} {
  const type = koffi().pointer(koffi().proto("void", ["void*", "uint64_t", "int8_t"]));
  const address = koffi().register(
    (_argument: unknown, endpoint: bigint | number, status: number) =>
      handler(BigInt(endpoint), status),
    type,
  );
  return { address, unregister: () => koffi().unregister(address) };
}

/**
 * Calls `print` with a FILE that writes to the descriptor. The caller keeps the descriptor, and
 * passes a duplicate that is closed here.
 * @returns false if there is no FILE for it; the descriptor is then not closed
 */
export function printTo(fd: number, print: (file: Address) => void): boolean {
  const libc = koffi().load(null);
  const fdopen = libc.func("fdopen", "void*", ["int", "str"]);
  const fclose = libc.func("fclose", "int", ["void*"]);
  const file = fdopen(fd, "w") as Address | null;
  if (file === null || file === 0n) return false;
  try {
    print(file);
  } finally {
    fclose(file);
  }
  return true;
}
