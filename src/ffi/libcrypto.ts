/**
 * Message authentication codes of the OpenSSL that Node itself is linked with: GMAC of long memory,
 * which is twice as fast as Node's CRC-32, and the calls for codes of many short messages.
 * https://docs.openssl.org/3.0/man3/EVP_MAC/
 */
import { createCipheriv } from "node:crypto";
import { type Address, koffi, viewMemory } from "./koffi.js";

const KEY_BYTES = 32;
const MAC_BYTES = 16;

interface QuickMac {
  /** `EVP_Q_mac` on the thread pool. */
  async(
    library: null,
    name: Address,
    properties: null,
    cipher: Address,
    params: Address,
    key: Address,
    keyBytes: number,
    bytes: Address,
    byteLength: number,
    mac: Address,
    macBytesMax: number,
    macBytes: Address,
    callback: (failure: unknown, mac: bigint | number | null) => void,
  ): void;
}

let opened: QuickMac | undefined;
let isMissing = false;

/**
 * The AES-256-GMAC of memory, computed on the thread pool. A key has 32 bytes, and is used once
 * with each nonce. SAFETY: the memory stays mapped until this resolves; at most 2 GiB.
 */
export async function macAt(
  key: Uint8Array,
  nonce: number,
  bytes: Address,
  byteLength: number,
): Promise<Uint8Array> {
  const quickMac = open();
  const room = new Room(key, nonce);
  if (quickMac === undefined) return room.macOf(new Uint8Array(viewMemory(bytes, byteLength)));
  return new Promise((resolve, reject) => {
    const { name, cipher, params, secret, mac, macBytes } = room.addresses;
    const settle = (failure: unknown, found: bigint | number | null) => {
      if (failure !== null && failure !== undefined) reject(failure);
      // OpenSSL has refused, so Node asks it in its own way, and says why if that fails, too.
      else if (found === null || BigInt(found) === 0n) {
        try {
          resolve(room.macOf(new Uint8Array(viewMemory(bytes, byteLength))));
        } catch (error) {
          reject(error);
        }
      } else resolve(room.mac());
    };
    quickMac.async(
      ...([null, name, null, cipher, params, secret, KEY_BYTES] as const),
      ...([bytes, byteLength, mac, MAC_BYTES, macBytes, settle] as const),
    );
  });
}

/** Undefined in a Node that hides its OpenSSL. */
function open(): QuickMac | undefined {
  if (opened !== undefined || isMissing) return opened;
  const [address, size] = ["uint64_t", "size_t"] as const;
  const parameters = [
    ...["void*", address, "void*", address, address, address, size],
    ...[address, size, address, size, address],
  ];
  try {
    const library = koffi().load(null);
    opened = library.func("EVP_Q_mac", "uint64_t", parameters) as unknown as QuickMac;
  } catch {
    isMissing = true;
  }
  return opened;
}

/** Returns of the last three: 1 for success. */
export interface MacFunctions {
  EVP_MAC_fetch(library: null, name: Address, properties: null): bigint | number;
  EVP_MAC_free(mac: Address): void;
  EVP_MAC_CTX_new(mac: Address): bigint | number;
  EVP_MAC_CTX_free(context: Address): void;
  /** With no key and no params it begins anew with those of before. */
  EVP_MAC_init(context: Address, key: Address, keyBytes: number, params: Address): number;
  EVP_MAC_update(context: Address, bytes: Address, byteLength: number): number;
  EVP_MAC_final(context: Address, mac: Address, macBytes: Address, macBytesMax: number): number;
}

let functions: MacFunctions | undefined;
let areMissing = false;

/** Undefined in a Node that hides its OpenSSL. */
export function macFunctions(): MacFunctions | undefined {
  if (functions !== undefined || areMissing) return functions;
  const [address, size] = ["uint64_t", "size_t"] as const;
  try {
    const library = koffi().load(null);
    const of = (name: string, result: string, parameters: string[]) =>
      library.func(name, result, parameters) as never;
    functions = {
      EVP_MAC_fetch: of("EVP_MAC_fetch", address, ["void*", address, "void*"]),
      EVP_MAC_free: of("EVP_MAC_free", "void", [address]),
      EVP_MAC_CTX_new: of("EVP_MAC_CTX_new", address, [address]),
      EVP_MAC_CTX_free: of("EVP_MAC_CTX_free", "void", [address]),
      EVP_MAC_init: of("EVP_MAC_init", "int", [address, address, size, address]),
      EVP_MAC_update: of("EVP_MAC_update", "int", [address, address, size]),
      EVP_MAC_final: of("EVP_MAC_final", "int", [address, address, address, size]),
    };
  } catch {
    areMissing = true;
  }
  return functions;
}

export const OSSL_PARAM_UTF8_STRING = 4;
const OSSL_PARAM_OCTET_STRING = 5;
const NONCE_BYTES = 12;

/**
 * What one call reads and writes.
 *
 *     | OSSL_PARAM iv: 40 bytes | end of the params: 40 | "iv": 8 | nonce: 16 | key: 32 | MAC: 16 |
 *     | length of the MAC: 8 | "GMAC": 8 | "AES-256-GCM": 16 |
 *
 * SAFETY: in memory outside of V8's heap, which is held until the call has ended.
 */
class Room {
  readonly #memory = new Uint8Array(new ArrayBuffer(184));
  readonly addresses: Readonly<
    Record<"name" | "cipher" | "params" | "secret" | "mac" | "macBytes", Address>
  >;

  constructor(key: Uint8Array, nonce: number) {
    if (key.byteLength !== KEY_BYTES) throw new TypeError(`a key has ${KEY_BYTES} bytes`);
    const memory = this.#memory;
    const start = BigInt(koffi().address(memory));
    const view = new DataView(memory.buffer);
    view.setBigUint64(0, start + 80n, true);
    view.setUint32(8, OSSL_PARAM_OCTET_STRING, true);
    view.setBigUint64(16, start + 88n, true);
    view.setBigUint64(24, BigInt(NONCE_BYTES), true);
    memory.set(text("iv"), 80);
    view.setBigUint64(88, BigInt(nonce), true);
    memory.set(key, 104);
    memory.set(text("GMAC"), 160);
    memory.set(text("AES-256-GCM"), 168);
    this.addresses = {
      params: start,
      secret: start + 104n,
      mac: start + 136n,
      macBytes: start + 152n,
      name: start + 160n,
      cipher: start + 168n,
    };
  }

  mac(): Uint8Array {
    return this.#memory.slice(136, 136 + MAC_BYTES);
  }

  /** The same by Node's own call, on this thread. */
  macOf(bytes: Uint8Array): Uint8Array {
    const memory = this.#memory;
    const nonce = memory.subarray(88, 88 + NONCE_BYTES);
    const cipher = createCipheriv("aes-256-gcm", memory.subarray(104, 136), nonce);
    cipher.setAAD(bytes);
    cipher.final();
    return cipher.getAuthTag();
  }
}

function text(word: string): Uint8Array {
  return new TextEncoder().encode(word);
}
