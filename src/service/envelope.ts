/**
 * What stands before the meta of each message of a link, little-endian. docs/protocol.md has the same picture.
 *
 *    0  u8   kind
 *    1  u8   1 where the meta that follows is JSON, 0 where it is bytes
 *    2  6 B  0
 *    8  u64  number of the request: chosen by the client, never twice on one link; 0 of a hello
 *   16  u64  of a request: the microsecond of CLOCK_MONOTONIC from which on nobody waits for the reply; 0 where there is none
 *   24       the user's meta
 */
import { CudaIpcError } from "../base/errors.js";
import { decodeJson, encodeMeta, type JsonValue, type Meta } from "../channel/message-meta.js";

export const ENVELOPE_BYTES = 24;

/** Requests and cancellations go to the worker, all others to the client. */
export const kinds = {
  /** The first message of a worker: how its requests are made (service-facts.ts). */
  hello: 1,
  request: 2,
  /** The client waits no more for the request of this number. */
  cancel: 3,
  reply: 4,
  /** The handler threw; the meta says what. */
  failed: 5,
  /** The request was not begun, and another worker may take it. */
  refused: 6,
  /** The request was given up as its client wanted, by a cancellation or a deadline. */
  dropped: 7,
  /** The request was begun, and the worker was closed before it was done. */
  abandoned: 8,
} as const;

export type Kind = keyof typeof kinds;

const names = new Map<number, Kind>(Object.entries(kinds).map(([name, number]) => [number, name as Kind]));

export interface Envelope {
  readonly kind: Kind;
  readonly number: number;
  /** As `monotonicMicros` has it; undefined where there is none. */
  readonly deadlineMicros?: number | undefined;
}

/** @throws MESSAGE_TOO_LARGE, TypeError for what is no JSON */
export function encodeEnvelope(
  label: string,
  envelope: Envelope,
  meta: Meta | undefined,
  bytesMax: number,
): Uint8Array {
  const user = meta === undefined ? undefined : encodeMeta(label, meta, bytesMax - ENVELOPE_BYTES);
  const bytes = new Uint8Array(ENVELOPE_BYTES + (user?.bytes.byteLength ?? 0));
  const view = new DataView(bytes.buffer);
  view.setUint8(0, kinds[envelope.kind]);
  view.setUint8(1, user?.isJson ? 1 : 0);
  view.setBigUint64(8, BigInt(envelope.number), true);
  view.setBigUint64(16, BigInt(envelope.deadlineMicros ?? 0), true);
  if (user !== undefined) bytes.set(user.bytes, ENVELOPE_BYTES);
  return bytes;
}

/** What arrived, and the user's meta behind it. */
export class Arrived implements Envelope {
  readonly kind: Kind;
  readonly number: number;
  readonly deadlineMicros: number | undefined;
  readonly meta: Uint8Array;
  readonly #isJson: boolean;
  readonly #label: string;

  /** @throws CHANNEL_CORRUPT */
  constructor(label: string, bytes: Uint8Array) {
    const refuse = (found: string) =>
      new CudaIpcError("CHANNEL_CORRUPT", `Cannot read a message of "${label}": ${found}`);
    if (bytes.byteLength < ENVELOPE_BYTES)
      throw refuse(`${bytes.byteLength} bytes before its meta, wanted ${ENVELOPE_BYTES}`);
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const kind = names.get(view.getUint8(0));
    if (kind === undefined) throw refuse(`kind ${view.getUint8(0)}`);
    const [number, deadline] = [view.getBigUint64(8, true), view.getBigUint64(16, true)];
    if (number > Number.MAX_SAFE_INTEGER) throw refuse(`number ${number}`);
    this.#label = label;
    this.#isJson = view.getUint8(1) === 1;
    this.kind = kind;
    this.number = Number(number);
    this.deadlineMicros = deadline === 0n ? undefined : Number(deadline);
    this.meta = bytes.subarray(ENVELOPE_BYTES);
  }

  /** The meta as the value that was given; undefined where it is bytes or none. @throws CHANNEL_CORRUPT */
  get json(): JsonValue | undefined {
    return this.#isJson ? decodeJson(this.#label, this.meta) : undefined;
  }
}

/** Of the clock that all processes of the machine share and that nobody sets. */
export function monotonicMicros(): number {
  return Number(process.hrtime.bigint() / 1000n);
}
