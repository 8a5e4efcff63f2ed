/**
 * The only import of koffi. It is loaded at first use, so that importing the package opens no library,
 * and through require, because that is synchronous.
 */
import { createRequire } from "node:module";
import { isMainThread } from "node:worker_threads";

type Koffi = typeof import("koffi");

export type TypeObject = ReturnType<Koffi["struct"]>;

let loaded: Koffi | undefined;
let ipcHandle: TypeObject | undefined;

export function koffi(): Koffi {
  loaded ??= load();
  return loaded;
}

function load(): Koffi {
  const found = createRequire(import.meta.url)("koffi") as Koffi;
  if (!isMainThread) keepInMemory(found);
  return found;
}

const RTLD_LAZY = 0x1;
const RTLD_NOLOAD = 0x4;
const RTLD_NODELETE = 0x1000;

/**
 * Keeps koffi's binary in memory until the process ends.
 * WHY: Node unloads an addon with the last thread that loaded it, before libuv has called back for the poll
 * handles that the thread left open. Those callbacks are code of the addon: the process would die of SIGSEGV.
 */
function keepInMemory(found: Koffi): void {
  const process = found.load(null);
  const dladdr = process.func("dladdr", "int", ["void*", "void*"]);
  const dlopen = process.func("dlopen", "void*", ["str", "int"]);
  // WHY by an address: which file it is depends on the C library, and bundlers rename it. The code behind a
  // registered callback lies in that file.
  const callback = found.register(() => {}, found.pointer(found.proto("void cudaIpcCallback()")));
  try {
    // SAFETY: Dl_info is four words, the first a string of the loader's.
    const info = new BigUint64Array(4);
    if (dladdr(callback, info) !== 0) dlopen(found.decode(info, "char*"), RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
  } finally {
    found.unregister(callback);
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
