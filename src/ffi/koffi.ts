/**
 * The only import of koffi. It is loaded at first use, so that importing the package opens no
 * library, and by `require`, which is synchronous.
 */

import { CudaIpcError, messageOf } from "../base/errors.js";
import { leaveOutOfBundle, packageVersion } from "../base/own-package.js";

type Koffi = typeof import("koffi");

export type TypeObject = ReturnType<Koffi["struct"]>;

let loaded: Koffi | undefined;
let ipcHandle: TypeObject | undefined;

export function koffi(): Koffi {
  loaded ??= load();
  return loaded;
}

/** @throws UNSUPPORTED if koffi or its binary is not installed, or does not run here */
function load(): Koffi {
  try {
    // WHY not imported: webpack knows an imported `createRequire`, and would bundle koffi's
    // JavaScript without its binary.
    const { createRequire } = process.getBuiltinModule("node:module");
    return createRequire(import.meta.url)("koffi") as Koffi;
  } catch (cause) {
    throw isOutOfFiles(cause) ? cause : refusal(cause);
  }
}

function refusal(cause: unknown): CudaIpcError {
  if (packageVersion() === "unknown") {
    const message = `Cannot load koffi: it is not installed beside cuda-ipc. ${leaveOutOfBundle}`;
    return new CudaIpcError("UNSUPPORTED", message, { cause });
  }
  return new CudaIpcError(
    "UNSUPPORTED",
    `Cannot load koffi, which calls C libraries: ${whyUnloadable(cause)}`,
    { cause, remedy: "Run `npm install` again on this machine, with optional packages." },
  );
}

function whyUnloadable(cause: unknown): string {
  if (codeOf(cause) === "MODULE_NOT_FOUND") return "it is not installed";
  // Only the first line: Node and the loader append details, which `cause` keeps.
  const [words = ""] = messageOf(cause).split("\n");
  const { platform, arch } = process;
  return words.startsWith("Cannot find the native Koffi module")
    ? `its binary for ${platform}-${arch} is not installed`
    : words;
}

function isOutOfFiles(cause: unknown): boolean {
  const code = codeOf(cause);
  return code === "EMFILE" || code === "ENFILE" || /too many open files/i.test(messageOf(cause));
}

function codeOf(cause: unknown): unknown {
  return cause instanceof Error && "code" in cause ? cause.code : undefined;
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
