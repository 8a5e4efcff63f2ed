/**
 * Seals the small messages of a link, so that only the two bridges can make them. Both know the
 * secrets, which went through NATS. A frame in memory:
 *
 *     | sequence, from 1: 8 bytes | size of the head: 4 bytes | head |
 *     | bytes of a message | HMAC-SHA256 of all before it: 32 bytes |
 *
 * Each direction has its own key, and each link new secrets, so no frame can be repeated, left out
 * or sent back.
 */
import { hkdfSync } from "node:crypto";
import { CudaIpcError } from "../../base/errors.js";
import { limits } from "../../base/limits.js";
import { KeyedMac, MAC_BYTES } from "../../os/keyed-mac.js";
import { BytesSeal } from "./bytes-seal.js";

const SEQUENCE_BYTES = 8;
const START_BYTES = SEQUENCE_BYTES + 4;
const SECRET_BYTES = 32;

/** A descriptor of the largest size, and the fields around it. */
const HEAD_BYTES_MAX = limits.messageBytesMax + 8 * 1024;
export const FRAME_BYTES_MAX = START_BYTES + HEAD_BYTES_MAX + limits.carriedInlineBytes + MAC_BYTES;
const NO_BYTES = new Uint8Array(0);

/** The content of a frame, in memory of its own. */
export interface FrameContent {
  /** A call or an answer as JSON in UTF-8, or the words of src/wire/carried-frames.ts. */
  readonly head: Uint8Array;
  readonly bytes: Uint8Array;
}

export type LinkSide = "asked" | "answered";

export class FrameSeal {
  /** For what travels beside the frames. */
  readonly bytes: BytesSeal;
  readonly #own: KeyedMac;
  readonly #others: KeyedMac;
  #sent = 0n;
  #received = 0n;

  /**
   * @param secrets of the side that asked for the link, then of the other
   * @param side of this bridge
   */
  constructor(secrets: readonly [Uint8Array, Uint8Array], side: LinkSide) {
    const [asked, answered] = secrets;
    if (asked.byteLength !== SECRET_BYTES || answered.byteLength !== SECRET_BYTES)
      throw new TypeError(`a secret has ${SECRET_BYTES} bytes`);
    const keyOf = (what: string) =>
      Buffer.from(hkdfSync("sha256", Buffer.concat([asked, answered]), "", `cuda-ipc ${what}`, 32));
    const other = side === "asked" ? "answered" : "asked";
    this.#own = new KeyedMac(keyOf(`link ${side}`));
    this.#others = new KeyedMac(keyOf(`link ${other}`));
    this.bytes = new BytesSeal(keyOf(`bytes ${side}`), keyOf(`bytes ${other}`));
  }

  /**
   * The frame lies outside of V8's heap, as UCX needs it.
   * @throws MESSAGE_TOO_LARGE
   */
  seal(head: Uint8Array, bytes: Uint8Array = NO_BYTES): Uint8Array {
    checkLength("of its head", head.byteLength, HEAD_BYTES_MAX);
    checkLength("of a message", bytes.byteLength, limits.carriedInlineBytes);
    const bodyBytes = START_BYTES + head.byteLength + bytes.byteLength;
    const memory = new ArrayBuffer(bodyBytes + MAC_BYTES);
    const frame = new Uint8Array(memory);
    this.#sent += 1n;
    const start = new DataView(memory);
    start.setBigUint64(0, this.#sent, true);
    start.setUint32(SEQUENCE_BYTES, head.byteLength, true);
    frame.set(head, START_BYTES);
    frame.set(bytes, START_BYTES + head.byteLength);
    frame.set(this.#own.of(frame.subarray(0, bodyBytes)), bodyBytes);
    return frame;
  }

  /**
   * SAFETY: as for memory that UCX writes, the frame lies outside of V8's heap.
   * @throws UNTRUSTED_PEER if the other bridge did not make it
   */
  open(frame: Uint8Array): FrameContent {
    const bodyBytes = frame.byteLength - MAC_BYTES;
    if (bodyBytes < START_BYTES) throw forged(`it has ${frame.byteLength} bytes`);
    const body = frame.subarray(0, bodyBytes);
    if (!this.#others.isOf(frame.subarray(bodyBytes), body))
      throw forged("it is not sealed with the key of this link");
    const start = new DataView(frame.buffer, frame.byteOffset);
    const sequence = start.getBigUint64(0, true);
    if (sequence !== this.#received + 1n)
      throw forged(`it is number ${sequence}, wanted ${this.#received + 1n}`);
    this.#received = sequence;
    const headEnd = START_BYTES + start.getUint32(SEQUENCE_BYTES, true);
    if (headEnd > bodyBytes) throw forged(`its head ends at byte ${headEnd} of ${bodyBytes}`);
    return { head: body.slice(START_BYTES, headEnd), bytes: body.slice(headEnd) };
  }

  /** Nothing is sealed or opened afterwards. */
  close(): void {
    this.#own.close();
    this.#others.close();
  }
}

function checkLength(what: string, byteLength: number, byteLengthMax: number): void {
  if (byteLength <= byteLengthMax) return;
  const found = `it has ${byteLength} bytes ${what}, the limit is ${byteLengthMax}`;
  throw new CudaIpcError("MESSAGE_TOO_LARGE", `Cannot send a frame: ${found}`);
}

function forged(found: string): CudaIpcError {
  return new CudaIpcError("UNTRUSTED_PEER", `Cannot trust a frame of the link: ${found}`);
}
