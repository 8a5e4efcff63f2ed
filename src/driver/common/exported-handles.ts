/**
 * The handles that any driver of this process has exported. A process must not import its own
 * handle, and the answer of a CUDA driver to one can have other causes, so the check comes first.
 */
import { CudaIpcError } from "../../base/errors.js";
import { ownHandle } from "../../os/exporter-file.js";
import { IPC_HANDLE_BYTES } from "../event-calls.js";

/** By handle, how many exporters in this process still hold what it names. */
const exported = new Map<string, number>();

/** Makes a handle a key of a Map. latin1 is the fastest way from bytes to a string. */
export function handleKey(handle: Uint8Array): string {
  return Buffer.from(handle.buffer, handle.byteOffset, handle.byteLength).toString("latin1");
}

/** @throws INVALID_HANDLE for another length, TypeError if it is no Uint8Array */
export function checkHandleLength(handle: Uint8Array, what: string): void {
  if (!(handle instanceof Uint8Array))
    throw new TypeError(`A handle of ${what} is a Uint8Array, not ${typeof handle}`);
  if (handle.byteLength === IPC_HANDLE_BYTES) return;
  const found = `the handle has ${handle.byteLength} bytes, wanted ${IPC_HANDLE_BYTES}`;
  throw new CudaIpcError("INVALID_HANDLE", `Cannot import ${what}: ${found}`);
}

export function rememberExported(key: string): void {
  exported.set(key, (exported.get(key) ?? 0) + 1);
}

export function forgetExported(key: string): void {
  const count = exported.get(key) ?? 0;
  if (count > 1) exported.set(key, count - 1);
  else exported.delete(key);
}

/** @throws OWN_HANDLE */
export function refuseOwnHandle(key: string, what: string): void {
  if (exported.has(key)) throw ownHandle(what);
}
