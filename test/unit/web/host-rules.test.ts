import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { refusalOf } from "../../../src/web/host-rules.js";

const rules = { names: ["node7.cluster"] };
const host = "127.0.0.1:8080";

describe("refusalOf", () => {
  it("allows IP addresses, localhost and listed names, on any port", () => {
    const good = [host, "[::1]:80", "localhost", "a.localhost:1", "LOCALHOST:2", "node7.cluster:3"];
    for (const host of good) assert.equal(refusalOf("GET", { host }, rules), undefined, host);
  });

  it("refuses names that a DNS server could make mean this machine", () => {
    const bad = [
      "evil.example",
      "127.0.0.1.evil.example",
      "localhost.evil",
      "x/y",
      "[::1",
      "",
      "a b",
    ];
    for (const host of bad) assert.match(refusalOf("GET", { host }, rules) ?? "", /Host/, host);
    assert.match(refusalOf("GET", {}, rules) ?? "", /Host/);
  });

  it("refuses another origin, also one that differs only by its port", () => {
    for (const origin of [
      "http://evil.example",
      "null",
      "http://127.0.0.1:8081",
      "http://127.0.0.1",
    ])
      for (const method of ["GET", "POST"])
        assert.match(refusalOf(method, { host, origin }, rules) ?? "", /another origin/, origin);
    for (const origin of [`http://${host}`, `https://${host}`])
      assert.equal(refusalOf("POST", { host, origin }, rules), undefined);
  });

  it("refuses a post without an origin, and one of another site", () => {
    assert.match(refusalOf("POST", { host }, rules) ?? "", /no Origin/);
    const origin = `http://${host}`;
    const headers = { host, origin, "sec-fetch-site": "same-site" };
    assert.match(refusalOf("POST", headers, rules) ?? "", /another site/);
  });
});
