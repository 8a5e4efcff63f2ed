import assert from "node:assert/strict";
import { createCipheriv, randomBytes } from "node:crypto";
import { describe, it } from "node:test";
import { macAt } from "../../../src/ffi/libcrypto.js";
import { addressOf } from "../../../src/os/host-memory.js";

const key = randomBytes(32);

/** As Node computes it: GCM that encrypts nothing. */
function macOf(bytes: Uint8Array, nonce: number): Buffer {
  const iv = Buffer.alloc(12);
  iv.writeBigUInt64LE(BigInt(nonce));
  const cipher = createCipheriv("aes-256-gcm", key, iv);
  cipher.setAAD(bytes);
  cipher.final();
  return cipher.getAuthTag();
}

function memory(byteLength: number): Uint8Array {
  const bytes = new Uint8Array(new ArrayBuffer(byteLength));
  bytes.set(randomBytes(byteLength));
  return bytes;
}

describe("macAt", () => {
  it("is the GMAC of the memory, whatever its length", async () => {
    for (const [at, byteLength] of [1, 15, 16, 17, 4096, 4 * 1024 * 1024].entries()) {
      const bytes = memory(byteLength);
      const nonce = 2 ** 33 + at;
      const found = await macAt(key, nonce, addressOf(bytes), byteLength);
      assert.deepEqual(Buffer.from(found), macOf(bytes, nonce), `${byteLength} bytes`);
    }
  });

  it("is computed for several at a time", async () => {
    const all = Array.from({ length: 20 }, () => memory(100_000));
    const macs = await Promise.all(
      all.map((bytes, at) => macAt(key, at + 1, addressOf(bytes), bytes.byteLength)),
    );
    for (const [at, bytes] of all.entries())
      assert.deepEqual(Buffer.from(macs[at] ?? []), macOf(bytes, at + 1));
  });

  it("takes keys of 32 bytes", async () => {
    await assert.rejects(macAt(randomBytes(16), 1, addressOf(memory(8)), 8), TypeError);
  });
});
