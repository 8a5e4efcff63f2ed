/**
 * Refuses moves of ArrayBuffers over mapped memory. A move makes another ArrayBuffer, which our
 * refcount does not know, so the memory would be unmapped under it.
 */
import { markAsUntransferable } from "node:worker_threads";

/** ES2024, from Node 21. */
interface Movable extends ArrayBuffer {
  readonly transfer?: () => ArrayBuffer;
}

type Method = (this: unknown, ...values: unknown[]) => unknown;

let nodeRefuses: boolean | undefined;
/** Used only if Node does not refuse moves itself. */
const kept = new WeakSet<object>();

/**
 * Returns an ArrayBuffer over the same external memory that cannot be moved: byte streams,
 * `transfer()` and transfer lists throw (in Node 20 a transfer list copies).
 */
export function unmovable(buffer: ArrayBuffer): ArrayBuffer {
  nodeRefuses ??= refusesMoves();
  if (!nodeRefuses) {
    if (!guarded) guardMoves(buffer);
    kept.add(buffer);
    return buffer;
  }
  // WHY moved first: Node detaches the external buffers that it made when it ends, and aborts if it
  // may not. It does not look for a moved one.
  const moved = (buffer as Movable).transfer?.() ?? buffer;
  markAsUntransferable(moved);
  return moved;
}

/** Newer releases of Node 24 enforce the mark in V8. Older ones do so only in `postMessage`. */
function refusesMoves(): boolean {
  const probe: Movable = new ArrayBuffer(1);
  if (probe.transfer === undefined) return false;
  markAsUntransferable(probe);
  try {
    probe.transfer();
    return false;
  } catch {
    return true;
  }
}

let guarded = false;

/** Wraps all functions by which a program can detach an external ArrayBuffer on an older Node. */
function guardMoves(buffer: ArrayBuffer): void {
  guarded = true;
  const streams = process.getBuiltinModule("node:stream/web");
  guard(streams.ReadableByteStreamController.prototype, "enqueue", ([chunk]) => refuse(chunk));
  guard(streams.ReadableStreamBYOBRequest.prototype, "respondWithNewView", ([view]) =>
    refuse(view),
  );
  guard(streams.ReadableStreamBYOBReader.prototype, "read", ([view]) => refuse(view), true);
  const arrayBuffer = Object.getPrototypeOf(buffer);
  for (const name of ["transfer", "transferToFixedLength"])
    if (name in arrayBuffer) guard(arrayBuffer, name, (_values, self) => refuse(self));
}

function guard(
  prototype: object,
  name: string,
  check: (values: readonly unknown[], self: unknown) => void,
  asynchronous = false,
): void {
  const found = Object.getOwnPropertyDescriptor(prototype, name);
  const method = found?.value as Method | undefined;
  if (method === undefined) return;
  // A method of an object literal, so that `new` refuses it as it refuses the original.
  const guards: Record<string, Method> = {
    [name](...values) {
      try {
        check(values, this);
      } catch (error) {
        if (asynchronous) return Promise.reject(error);
        throw error;
      }
      return Reflect.apply(method, this, values);
    },
  };
  const value = guards[name] as Method;
  Object.defineProperty(value, "length", { value: method.length, configurable: true });
  Object.defineProperty(prototype, name, { ...found, value });
}

function refuse(value: unknown): void {
  const buffer = ArrayBuffer.isView(value) ? value.buffer : value;
  if (typeof buffer !== "object" || buffer === null || !kept.has(buffer)) return;
  throw new TypeError("Cannot move a view of shared memory: pass a copy, such as view.slice()");
}
