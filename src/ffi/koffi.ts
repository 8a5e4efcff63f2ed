/**
 * The only import of koffi. It is loaded at first use, so that importing the package opens no
 * library, and by `require`, which is synchronous.
 */

import { CudaIpcError } from "../base/errors.js";
import { leaveOutOfBundle } from "../base/own-package.js";

type Koffi = typeof import("koffi");

export type TypeObject = ReturnType<Koffi["struct"]>;

let loaded: Koffi | undefined;
let ipcHandle: TypeObject | undefined;

export function koffi(): Koffi {
  loaded ??= load();
  return loaded;
}

/** @throws UNSUPPORTED if koffi is not installed */
function load(): Koffi {
  try {
    // WHY not imported: webpack knows an imported `createRequire`, and would bundle koffi's
    // JavaScript without its binary.
    const { createRequire } = process.getBuiltinModule("node:module");
    return createRequire(import.meta.url)("koffi") as Koffi;
  } catch (cause) {
    const code = cause instanceof Error && "code" in cause ? cause.code : undefined;
    // ERR_INVALID_ARG_VALUE: in a CommonJS bundle `import.meta.url` is undefined.
    if (code !== "MODULE_NOT_FOUND" && code !== "ERR_INVALID_ARG_VALUE") throw cause;
    const message = `Cannot load koffi: it is not installed beside cuda-ipc. ${leaveOutOfBundle}`;
    throw new CudaIpcError("UNSUPPORTED", message, { cause });
  }
}

/** The type of CUipcMemHandle and CUipcEventHandle, which are passed by value. */
export function ipcHandleType(): TypeObject {
  ipcHandle ??= koffi().struct({ reserved: koffi().array("uint8_t", 64, "Typed") });
  return ipcHandle;
}

/** An address in this process's memory, or another value in a parameter of type `void*`. */
export type Address = bigint;

/** The argument for a `void*`: an address, or JavaScript memory, which koffi pins for the call. */
export type PointerArgument =
  | Address
  | Uint8Array
  | BigUint64Array
  | BigInt64Array
  | Int32Array
  | Uint32Array
  | null;

/**
 * Views `byteLength` bytes at an address as an ArrayBuffer, without a copy. SAFETY: the caller
 * keeps the memory mapped for as long as anything holds the view, and keeps `byteLength` under
 * `limits.viewBytesMax`: beyond 4 GiB Node 20 ends the whole process.
 */
export function viewMemory(address: Address, byteLength: number): ArrayBuffer {
  return koffi().view(address, byteLength);
}
