/**
 * The header before the meta of each message of a link, little-endian. docs/protocol.md has the
 * same table.
 *
 *    0  u8   kind
 *    1  u8   1 if the meta is JSON, 0 if it is bytes
 *    2  6 B  0
 *    8  u64  number of the request: chosen by the client, unique on its link; 0 in a hello
 *   16  u64  in a request: its deadline in microseconds of CLOCK_MONOTONIC; 0 for none
 *   24       the user's meta
 */
import { CudaIpcError } from "../base/errors.js";
import { decodeJson, encodeMeta, type JsonValue, type Meta } from "../channel/message-meta.js";

export const ENVELOPE_BYTES = 24;
const DEADLINE_AT = 16;

/** Requests and cancellations go to the worker. All others go to the client. */
export const kinds = {
  /** The first message of a worker. It says how requests are sent (service-facts.ts). */
  hello: 1,
  request: 2,
  /** The client no longer waits for the request with this number. */
  cancel: 3,
  reply: 4,
  /** The handler threw. The meta describes the error. */
  failed: 5,
  /** The worker did not begin the request. Another worker may take it. */
  refused: 6,
  /** The request was cancelled, or its deadline passed. */
  dropped: 7,
  /** The worker was closed after it began the request and before it finished. */
  abandoned: 8,
} as const;

export type Kind = keyof typeof kinds;

const names = new Map<number, Kind>(
  Object.entries(kinds).map(([name, number]) => [number, name as Kind]),
);

export interface Envelope {
  readonly kind: Kind;
  readonly number: number;
  /** In microseconds of `monotonicMicros`; undefined for none. */
  readonly deadlineMicros?: number | undefined;
}

/** @throws MESSAGE_TOO_LARGE; TypeError if the meta is not JSON */
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
  view.setBigUint64(DEADLINE_AT, BigInt(envelope.deadlineMicros ?? 0), true);
  if (user !== undefined) bytes.set(user.bytes, ENVELOPE_BYTES);
  return bytes;
}

/** A received header and the user's meta after it. */
export class ReceivedEnvelope implements Envelope {
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
      throw refuse(`${bytes.byteLength} bytes of envelope, wanted ${ENVELOPE_BYTES}`);
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const kind = names.get(view.getUint8(0));
    if (kind === undefined) throw refuse(`unknown kind ${view.getUint8(0)}`);
    const [number, deadline] = [view.getBigUint64(8, true), view.getBigUint64(DEADLINE_AT, true)];
    if (number > Number.MAX_SAFE_INTEGER) throw refuse(`request number ${number} is over 2^53 - 1`);
    this.#label = label;
    this.#isJson = view.getUint8(1) === 1;
    this.kind = kind;
    this.number = Number(number);
    this.deadlineMicros = deadline === 0n ? undefined : Number(deadline);
    this.meta = bytes.subarray(ENVELOPE_BYTES);
  }

  /**
   * The meta as the JSON value that was sent. Undefined if the meta is bytes or empty.
   * @throws CHANNEL_CORRUPT
   */
  get json(): JsonValue | undefined {
    return this.#isJson ? decodeJson(this.#label, this.meta) : undefined;
  }
}

/**
 * For another machine, which has another clock: the envelope of a request with the microseconds
 * that are left, in place of its deadline. Other envelopes stay as they are.
 */
export function withTimeLeft(envelope: Uint8Array): Uint8Array {
  return mapDeadline(envelope, (deadline) => Math.max(1, deadline - monotonicMicros()));
}

/** The reverse of `withTimeLeft`, by the clock of this machine. */
export function withDeadline(envelope: Uint8Array): Uint8Array {
  return mapDeadline(envelope, (left) =>
    Math.min(monotonicMicros() + left, Number.MAX_SAFE_INTEGER),
  );
}

function mapDeadline(envelope: Uint8Array, change: (micros: number) => number): Uint8Array {
  if (envelope.byteLength < ENVELOPE_BYTES || envelope[0] !== kinds.request) return envelope;
  const bytes = new Uint8Array(envelope);
  const view = new DataView(bytes.buffer);
  const micros = Number(view.getBigUint64(DEADLINE_AT, true));
  if (micros !== 0) view.setBigUint64(DEADLINE_AT, BigInt(change(micros)), true);
  return bytes;
}

/** The machine's monotonic clock, which all processes share and nobody sets. */
export function monotonicMicros(): number {
  return Number(process.hrtime.bigint() / 1000n);
}
