/**
 * Seals the bytes of arrays that travel beside the frames of a link, so that nobody on the way can
 * change them. The seal goes in a frame.
 */
import { timingSafeEqual } from "node:crypto";
import { macAt } from "../../os/host-memory.js";

export interface SealOfBytes {
  /** Counts the seals of one side. */
  readonly nonce: number;
  /** In hexadecimal. */
  readonly mac: string;
}

export class BytesSeal {
  readonly #own: Uint8Array;
  readonly #others: Uint8Array;
  #nonce = 0;

  /** @param own the key of this side's seals, for this link alone */
  constructor(own: Uint8Array, others: Uint8Array) {
    this.#own = own;
    this.#others = others;
  }

  /** SAFETY: the memory stays mapped until this resolves. */
  async seal(address: bigint, byteLength: number): Promise<SealOfBytes> {
    this.#nonce += 1;
    const nonce = this.#nonce;
    const mac = await macAt(this.#own, nonce, address, byteLength);
    return { nonce, mac: Buffer.from(mac).toString("hex") };
  }

  /** Whether the other side has sealed exactly these bytes. SAFETY: as for `seal`. */
  async isOf({ nonce, mac }: SealOfBytes, address: bigint, byteLength: number): Promise<boolean> {
    const found = await macAt(this.#others, nonce, address, byteLength);
    return timingSafeEqual(found, Buffer.from(mac, "hex"));
  }
}
