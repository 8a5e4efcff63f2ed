import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { isLoopback, parseWebAddress, webAddressText } from "../../../src/web/web-address.js";

describe("parseWebAddress", () => {
  it("takes an IP address or localhost, with a port", () => {
    assert.deepEqual(parseWebAddress("8080"), { host: "127.0.0.1", port: 8080 });
    assert.deepEqual(parseWebAddress("localhost:0"), { host: "localhost", port: 0 });
    assert.deepEqual(parseWebAddress("0.0.0.0:80"), { host: "0.0.0.0", port: 80 });
    assert.deepEqual(parseWebAddress("[::1]:65535"), { host: "::1", port: 65_535 });
  });

  it("refuses other names, and numbers that are no port", () => {
    const bad = ["", "example.com:80", "65536", "::1:80", "[::1]", "127.0.0.1", "[1]:2", "1.2:3"];
    for (const text of bad) assert.equal(parseWebAddress(text), undefined, text);
  });

  it("is printed as in a URL", () => {
    for (const text of ["127.0.0.1:8080", "[::1]:80", "localhost:1"]) {
      const address = parseWebAddress(text);
      assert.equal(address && webAddressText(address), text);
    }
  });

  it("knows which addresses only this machine reaches", () => {
    const isLocal = (text: string) => isLoopback(parseWebAddress(text) ?? assert.fail(text));
    for (const text of ["80", "127.1.2.3:80", "[::1]:80", "localhost:80"]) assert.ok(isLocal(text));
    for (const text of ["0.0.0.0:80", "[::]:80", "10.0.0.1:80"]) assert.ok(!isLocal(text));
  });
});
