/**
 * HMAC-SHA256 of many short messages with one key. WHY not Node's `createHmac`: it makes a context
 * for each message. That takes 3.4 us for 64 bytes, and five times as long in a process that was
 * just woken. Here one context is used again and again, in 0.6 us.
 */
import { createHmac, createSecretKey, type KeyObject, timingSafeEqual } from "node:crypto";
import { CudaIpcError } from "../base/errors.js";
import { type Address, koffi } from "../ffi/koffi.js";
import { type MacFunctions, macFunctions, OSSL_PARAM_UTF8_STRING } from "../ffi/libcrypto.js";

export const MAC_BYTES = 32;
const KEY_BYTES = 32;
const OK = 1;

export class KeyedMac {
  readonly #key: KeyObject;
  readonly #context: MacContext | undefined;
  #open = true;

  /** @param functions of OpenSSL. Without them Node's own HMAC is used. */
  constructor(key: Uint8Array, functions: MacFunctions | undefined = macFunctions()) {
    this.#key = createSecretKey(key);
    this.#context = functions === undefined ? undefined : MacContext.tryCreate(functions, key);
  }

  /**
   * Returns the code of these bytes, in memory that the next call writes again.
   * SAFETY: the bytes are outside of V8's heap, as those of a `new ArrayBuffer` are.
   */
  of(bytes: Uint8Array): Uint8Array {
    if (!this.#open)
      throw new CudaIpcError("CLOSED", "Cannot compute a message authentication code: closed");
    return this.#context?.of(bytes) ?? createHmac("sha256", this.#key).update(bytes).digest();
  }

  /** Compares in a time that does not depend on the codes. SAFETY: as for `of`. */
  isOf(mac: Uint8Array, bytes: Uint8Array): boolean {
    return timingSafeEqual(this.of(bytes), mac);
  }

  close(): void {
    if (!this.#open) return;
    this.#open = false;
    this.#context?.free();
  }

  [Symbol.dispose](): void {
    this.close();
  }
}

/**
 * A context of OpenSSL with a key, and what its calls read and write.
 *
 *     | OSSL_PARAM digest: 40 bytes | end of the params: 40 | "digest": 8 | "SHA256": 8 |
 *     | "HMAC": 8 | key, until it is set: 32 | MAC: 32 | length of the MAC: 8 |
 *
 * SAFETY: in memory outside of V8's heap, which lives as long as this object.
 */
class MacContext {
  readonly #functions: MacFunctions;
  readonly #memory = new Uint8Array(new ArrayBuffer(176));
  readonly #start = BigInt(koffi().address(this.#memory));
  readonly #mac = this.#memory.subarray(136, 136 + MAC_BYTES);
  readonly #macAddress: Address = this.#start + 136n;
  readonly #macBytesAddress: Address = this.#start + 168n;
  readonly #handle: bigint;

  private constructor(functions: MacFunctions) {
    this.#functions = functions;
    const memory = this.#memory;
    const start = this.#start;
    const digest = Buffer.from("SHA256");
    const view = new DataView(memory.buffer);
    view.setBigUint64(0, start + 80n, true);
    view.setUint32(8, OSSL_PARAM_UTF8_STRING, true);
    view.setBigUint64(16, start + 88n, true);
    view.setBigUint64(24, BigInt(digest.byteLength), true);
    memory.set(Buffer.from("digest"), 80);
    memory.set(digest, 88);
    memory.set(Buffer.from("HMAC"), 96);
    const mac = BigInt(functions.EVP_MAC_fetch(null, start + 96n, null));
    this.#handle = mac === 0n ? 0n : BigInt(functions.EVP_MAC_CTX_new(mac));
    // The context keeps what it needs of it.
    if (mac !== 0n) functions.EVP_MAC_free(mac);
  }

  /** Returns undefined if OpenSSL refuses. */
  static tryCreate(functions: MacFunctions, key: Uint8Array): MacContext | undefined {
    const context = new MacContext(functions);
    if (context.#handle !== 0n && context.#setKey(key)) return context;
    context.free();
    return undefined;
  }

  /** Returns undefined if OpenSSL refuses. */
  of(bytes: Uint8Array): Uint8Array | undefined {
    const { EVP_MAC_init, EVP_MAC_update, EVP_MAC_final } = this.#functions;
    const context = this.#handle;
    const isDone =
      EVP_MAC_init(context, 0n, 0, 0n) === OK &&
      EVP_MAC_update(context, BigInt(koffi().address(bytes)), bytes.byteLength) === OK &&
      EVP_MAC_final(context, this.#macAddress, this.#macBytesAddress, MAC_BYTES) === OK;
    return isDone ? this.#mac : undefined;
  }

  free(): void {
    if (this.#handle !== 0n) this.#functions.EVP_MAC_CTX_free(this.#handle);
  }

  #setKey(key: Uint8Array): boolean {
    const memory = this.#memory.subarray(104, 104 + key.byteLength);
    if (memory.byteLength !== KEY_BYTES) throw new TypeError(`a key has ${KEY_BYTES} bytes`);
    memory.set(key);
    const address = this.#start + 104n;
    const status = this.#functions.EVP_MAC_init(this.#handle, address, KEY_BYTES, this.#start);
    memory.fill(0);
    return status === OK;
  }
}
