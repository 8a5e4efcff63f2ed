import assert from "node:assert/strict";
import { randomBytes, randomUUID } from "node:crypto";
import { describe, it } from "node:test";
import { decodeLinkMessage, linkRequestSchema } from "../../../src/wire/link-messages.js";
import { MACHINES_VERSION } from "../../../src/wire/machines-version.js";

describe("decodeLinkMessage()", () => {
  it("takes a machine only by a name that status, logs and errors can have", () => {
    const meeting = {
      ...{ v: MACHINES_VERSION, op: "link", instance: randomUUID(), ucx: "1.22.0" },
      address: randomBytes(100).toString("base64"),
      secret: randomBytes(32).toString("base64"),
    };
    const decode = (machine: string) =>
      decodeLinkMessage(
        "a request",
        linkRequestSchema,
        Buffer.from(JSON.stringify({ ...meeting, machine })),
      ).machine;
    const longest = "a".repeat(255);
    assert.equal(decode(longest), longest);
    for (const machine of ["", `${longest}a`, "a b", "a\u001b[2J"])
      assert.throws(() => decode(machine), { code: "INVALID_MESSAGE" }, machine);
  });
});
