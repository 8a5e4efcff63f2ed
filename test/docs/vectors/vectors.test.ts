import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { type ArrayLayout, checkLayout } from "../../../src/array/layout.js";
import {
  checked,
  decodeReply,
  decodeRequest,
  decodeResult,
  encodeMessage,
} from "../../../src/wire/codec.js";
import { descriptorContradiction, descriptorSchema } from "../../../src/wire/descriptor.js";
import type { Request } from "../../../src/wire/messages.js";

const read = (name: string) =>
  JSON.parse(readFileSync(`docs/protocol/vectors/${name}.json`, "utf8"));

interface Named {
  readonly what: string;
  readonly text: string;
}

function checkDescriptor(text: string): unknown {
  const descriptor = checked("it", descriptorSchema, JSON.parse(text), "INVALID_DESCRIPTOR");
  assert.equal(descriptorContradiction(descriptor), undefined);
  const { content, byteLength } = descriptor;
  if (content.kind === "array") checkLayout(content.array as ArrayLayout, byteLength);
  return descriptor;
}

describe("the vectors of the protocol", () => {
  it("have messages that come out of the library as they went in", () => {
    const { requests, replies, refusals } = read("messages");
    for (const text of requests)
      assert.equal(Buffer.from(encodeMessage(decodeRequest(Buffer.from(text)))).toString(), text);
    for (const { to, text } of [...replies, ...refusals.map((text: string) => ({ text }))]) {
      const reply = decodeReply(Buffer.from(text));
      const whole =
        reply.ok && to !== undefined
          ? { ...reply, result: decodeResult(to as Request["op"], reply.result) }
          : reply;
      assert.equal(Buffer.from(encodeMessage(whole)).toString(), text);
    }
  });

  const { taken, refused } = read("descriptors") as Record<string, Named[]>;

  it("have descriptors that the library takes, and writes as it read them", () => {
    for (const { what, text } of taken ?? [])
      assert.equal(JSON.stringify(checkDescriptor(text)), text, what);
  });

  for (const { what, text } of refused ?? []) {
    it(`have a descriptor that the library refuses: ${what}`, () => {
      assert.throws(() => checkDescriptor(text));
    });
  }
});
