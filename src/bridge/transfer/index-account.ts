/**
 * Memory for the indexes of bundles that a bridge copies at a time. An index is short, but a
 * million arrays take hundreds of MB once it is parsed. So all copies share one account. A copy
 * waits until there is room, and one that never has room is refused.
 */
import type { Deadline } from "../../base/deadline.js";
import { CudaIpcError } from "../../base/errors.js";
import type { DescriptorContent } from "../../wire/descriptor.js";
import { countJson } from "../../wire/json-counts.js";

/** Measured: 735 to 860 bytes with the text of the index. */
const BYTES_PER_ARRAY = 1024;
/** A number of two bytes of text takes eight. */
const BYTES_PER_BYTE = 4;
/** An entry of an object, and the text itself. */
const BYTES_PER_STRING = 128;
/** The fields of an array, its name and its dtype. */
const STRINGS_PER_ARRAY = 7;

type BundleFacts = Pick<DescriptorContent & { kind: "bundle" }, "arrayCount" | "indexByteLength">;

/** The most memory that an index of these claims takes, but for its metadata. */
export function indexMemory({ arrayCount, indexByteLength }: BundleFacts): number {
  return BYTES_PER_ARRAY * arrayCount + BYTES_PER_BYTE * indexByteLength;
}

/** The most memory that the metadata of an index take. */
export function metadataMemory(index: Uint8Array, arrayCount: number): number {
  const strings = countJson(index).strings - STRINGS_PER_ARRAY * arrayCount;
  return Math.max(0, strings) * BYTES_PER_STRING;
}

interface Waiting {
  readonly bytes: number;
  begin(): void;
}

export class IndexAccount {
  readonly #limitName: string;
  readonly #bytesMax: number;
  #bytes = 0;
  /** In the order in which they came. */
  readonly #waiting = new Set<Waiting>();

  /** @param limitName as the messages of errors name the limit */
  constructor(limitName: string, bytesMax: number) {
    this.#limitName = limitName;
    this.#bytesMax = bytesMax;
  }

  /** Bytes that are taken. */
  get bytes(): number {
    return this.#bytes;
  }

  /**
   * Waits for room.
   * @param attempt as in `Cannot copy "weights"`
   * @throws LIMIT_EXCEEDED if there can never be room; TIMEOUT, ABORTED
   */
  async take(attempt: string, bytes: number, deadline: Deadline): Promise<IndexCharge> {
    if (bytes > this.#bytesMax) throw this.#exceeded(attempt, bytes);
    if (this.#waiting.size > 0 || !this.#hasRoom(bytes)) await this.#room(bytes, deadline);
    else this.#bytes += bytes;
    return new IndexCharge(this, attempt, bytes);
  }

  /** Takes more for a charge, at once. @throws LIMIT_EXCEEDED if there is no room */
  grow(attempt: string, bytes: number): void {
    if (!this.#hasRoom(bytes)) throw this.#exceeded(attempt, bytes);
    this.#bytes += bytes;
  }

  giveBack(bytes: number): void {
    this.#bytes -= bytes;
    this.#next();
  }

  async #room(bytes: number, deadline: Deadline): Promise<void> {
    let begin = () => {};
    const begun = new Promise<void>((resolve) => {
      begin = resolve;
    });
    const waiting = { bytes, begin };
    this.#waiting.add(waiting);
    await deadline.race(begun, () => {
      // If it is not there any more, it had its turn at the same moment.
      if (this.#waiting.delete(waiting)) this.#next();
      else this.giveBack(bytes);
    });
  }

  #next(): void {
    for (const waiting of [...this.#waiting]) {
      if (!this.#hasRoom(waiting.bytes)) return;
      this.#waiting.delete(waiting);
      this.#bytes += waiting.bytes;
      waiting.begin();
    }
  }

  #hasRoom(bytes: number): boolean {
    return this.#bytes + bytes <= this.#bytesMax;
  }

  #exceeded(attempt: string, bytes: number): CudaIpcError {
    const found = `its index takes up to ${bytes} bytes, ${this.#bytes} are in use`;
    return new CudaIpcError(
      "LIMIT_EXCEEDED",
      `Cannot ${attempt}: ${found}, and the limit (${this.#limitName}) is ${this.#bytesMax}`,
      { remedy: "Split the bundle, or copy fewer bundles at a time." },
    );
  }
}

/** The memory that one copy has taken from the account. */
export class IndexCharge implements Disposable {
  readonly #account: IndexAccount;
  readonly #attempt: string;
  #bytes: number;

  constructor(account: IndexAccount, attempt: string, bytes: number) {
    this.#account = account;
    this.#attempt = attempt;
    this.#bytes = bytes;
  }

  /** Takes what is missing to this many bytes, at once. @throws LIMIT_EXCEEDED */
  growTo(bytes: number): void {
    const more = bytes - this.#bytes;
    if (more <= 0) return;
    this.#account.grow(this.#attempt, more);
    this.#bytes = bytes;
  }

  [Symbol.dispose](): void {
    const bytes = this.#bytes;
    this.#bytes = 0;
    if (bytes > 0) this.#account.giveBack(bytes);
  }
}
