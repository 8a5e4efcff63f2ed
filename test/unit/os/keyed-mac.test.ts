import assert from "node:assert/strict";
import { createHmac, randomBytes } from "node:crypto";
import { describe, it } from "node:test";
import { macFunctions } from "../../../src/ffi/libcrypto.js";
import { KeyedMac } from "../../../src/os/keyed-mac.js";

const key = randomBytes(32);
const wanted = (bytes: Uint8Array) => createHmac("sha256", key).update(bytes).digest();
/** Outside of V8's heap. */
const bytesOf = (byteLength: number) => new Uint8Array(new ArrayBuffer(byteLength)).fill(7);

/** OpenSSL with one call that fails from now on. */
function failing(name: "EVP_MAC_fetch" | "EVP_MAC_CTX_new" | "EVP_MAC_init" | "EVP_MAC_final") {
  const functions = macFunctions();
  assert.ok(functions !== undefined);
  return { ...functions, [name]: () => 0 };
}

describe("KeyedMac", () => {
  it("computes the HMAC-SHA256 that Node does, again and again", () => {
    assert.ok(macFunctions() !== undefined, "Node shows its OpenSSL");
    using mac = new KeyedMac(key);
    for (const byteLength of [1, 12, 55, 64, 65, 4096, 200_000, 12]) {
      const bytes = bytesOf(byteLength);
      assert.deepEqual(Buffer.from(mac.of(bytes)), wanted(bytes), `${byteLength} bytes`);
      assert.equal(mac.isOf(wanted(bytes), bytes), true);
      assert.equal(mac.isOf(wanted(bytesOf(byteLength + 1)), bytes), false);
    }
  });

  it("uses Node's own if OpenSSL is hidden or refuses", () => {
    const bytes = bytesOf(100);
    for (const functions of [
      failing("EVP_MAC_fetch"),
      failing("EVP_MAC_CTX_new"),
      failing("EVP_MAC_init"),
      failing("EVP_MAC_final"),
    ]) {
      using mac = new KeyedMac(key, functions);
      assert.deepEqual(Buffer.from(mac.of(bytes)), wanted(bytes));
    }
  });

  it("is of one key, and of no use after the close", () => {
    using other = new KeyedMac(randomBytes(32));
    const bytes = bytesOf(100);
    assert.notDeepEqual(Buffer.from(other.of(bytes)), wanted(bytes));
    other.close();
    assert.throws(() => other.of(bytes), { code: "CLOSED" });
    assert.throws(() => new KeyedMac(key.subarray(1)), TypeError);
  });
});
