/**
 * The only import of koffi. It is loaded at first use, so that importing the package opens no library,
 * and through require, because that is synchronous.
 */
import { leaveOutOfBundle } from "../base/bundled.js";
import { CudaIpcError } from "../base/errors.js";

type Koffi = typeof import("koffi");

export type TypeObject = ReturnType<Koffi["struct"]>;

let loaded: Koffi | undefined;
let ipcHandle: TypeObject | undefined;

export function koffi(): Koffi {
  loaded ??= load();
  return loaded;
}

/** @throws UNSUPPORTED where it is not to be found */
function load(): Koffi {
  try {
    // WHY not imported: webpack knows `createRequire`, and would take koffi's JavaScript into a bundle without its binary.
    const { createRequire } = process.getBuiltinModule("node:module");
    return createRequire(import.meta.url)("koffi") as Koffi;
  } catch (cause) {
    const code = cause instanceof Error && "code" in cause ? cause.code : undefined;
    // WHY an invalid argument, too: in a bundle of CommonJS `import.meta.url` is undefined.
    if (code !== "MODULE_NOT_FOUND" && code !== "ERR_INVALID_ARG_VALUE") throw cause;
    const message = `Cannot load koffi: it is not installed beside cuda-ipc. ${leaveOutOfBundle}`;
    throw new CudaIpcError("UNSUPPORTED", message, { cause });
  }
}

/** CUipcMemHandle and CUipcEventHandle, as they are passed by value. */
export function ipcHandleType(): TypeObject {
  ipcHandle ??= koffi().struct({ reserved: koffi().array("uint8_t", 64, "Typed") });
  return ipcHandle;
}

/** An address in this process's memory, or a value of the same width that C takes for one. */
export type Address = bigint;

/** What a `void*` parameter takes: an address, or memory of JavaScript that stays in place for the call. */
export type PointerArgument = Address | Uint8Array | BigUint64Array | BigInt64Array | Int32Array | Uint32Array | null;

/**
 * Views `byteLength` bytes at an address as an ArrayBuffer, without a copy.
 * SAFETY: the caller keeps the memory mapped for as long as anything holds the view, and keeps `byteLength`
 * under `limits.viewBytesMax`: beyond 4 GiB Node 20 ends the whole process.
 */
export function viewMemory(address: Address, byteLength: number): ArrayBuffer {
  return koffi().view(address, byteLength);
}
