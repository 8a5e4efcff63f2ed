/**
 * Seals the small messages of a link, so that only the two bridges can make them. Both know the
 * secrets, which went through NATS. A frame in memory:
 *
 *     | sequence: 8 bytes, from 1 | JSON in UTF-8 | HMAC-SHA256 of both: 32 bytes |
 *
 * Each direction has its own key, and each link new secrets, so no frame can be repeated, left out
 * or sent back.
 */
import { createHmac, hkdfSync, timingSafeEqual } from "node:crypto";
import { CudaIpcError } from "../../base/errors.js";
import { limits } from "../../base/limits.js";

const SEQUENCE_BYTES = 8;
const MAC_BYTES = 32;
const SECRET_BYTES = 32;

/** A descriptor of the largest size, and the fields around it. */
export const FRAME_BYTES_MAX = limits.messageBytesMax + 8 * 1024;

export type LinkSide = "asked" | "answered";

export class FrameSeal {
  readonly #own: Uint8Array;
  readonly #others: Uint8Array;
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
    const keyOf = (from: LinkSide) =>
      new Uint8Array(
        hkdfSync("sha256", Buffer.concat([asked, answered]), "", `cuda-ipc link ${from}`, 32),
      );
    this.#own = keyOf(side);
    this.#others = keyOf(side === "asked" ? "answered" : "asked");
  }

  /** The frame lies outside of V8's heap, as UCX needs it. */
  seal(json: Uint8Array): Uint8Array {
    const memory = new ArrayBuffer(SEQUENCE_BYTES + json.byteLength + MAC_BYTES);
    const frame = new Uint8Array(memory);
    if (frame.byteLength > FRAME_BYTES_MAX) {
      const found = `it has ${frame.byteLength} bytes, the limit is ${FRAME_BYTES_MAX}`;
      throw new CudaIpcError("MESSAGE_TOO_LARGE", `Cannot send a frame: ${found}`);
    }
    this.#sent += 1n;
    new DataView(memory).setBigUint64(0, this.#sent, true);
    frame.set(json, SEQUENCE_BYTES);
    const body = frame.subarray(0, SEQUENCE_BYTES + json.byteLength);
    frame.set(macOf(this.#own, body), body.byteLength);
    return frame;
  }

  /** Returns a copy of the JSON. @throws UNTRUSTED_PEER if the other bridge did not make it */
  open(frame: Uint8Array): Uint8Array {
    const bodyBytes = frame.byteLength - MAC_BYTES;
    if (bodyBytes < SEQUENCE_BYTES) throw forged(`it has ${frame.byteLength} bytes`);
    const body = frame.subarray(0, bodyBytes);
    if (!timingSafeEqual(macOf(this.#others, body), frame.subarray(bodyBytes)))
      throw forged("it is not sealed with the key of this link");
    const sequence = new DataView(frame.buffer, frame.byteOffset).getBigUint64(0, true);
    if (sequence !== this.#received + 1n)
      throw forged(`it is number ${sequence}, wanted ${this.#received + 1n}`);
    this.#received = sequence;
    return body.slice(SEQUENCE_BYTES);
  }
}

function macOf(key: Uint8Array, body: Uint8Array): Uint8Array {
  return createHmac("sha256", key).update(body).digest();
}

function forged(found: string): CudaIpcError {
  return new CudaIpcError("UNTRUSTED_PEER", `Cannot trust a frame of the link: ${found}`);
}
