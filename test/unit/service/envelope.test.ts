/** What stands before the meta: there and back, and what is refused. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { CudaIpcError } from "../../../src/base/errors.js";
import { limits } from "../../../src/base/limits.js";
import { Arrived, ENVELOPE_BYTES, encodeEnvelope, type Kind, kinds } from "../../../src/service/envelope.js";
import { failureReport, failureText } from "../../../src/service/failure-report.js";
import { parseFacts } from "../../../src/service/service-facts.js";

const kind = fc.constantFrom(...(Object.keys(kinds) as Kind[]));
const number = fc.maxSafeNat();

describe("the envelope of a service's messages", () => {
  it("comes back as it was, with its meta", () => {
    const meta = fc.oneof(fc.uint8Array({ maxLength: 20 }), fc.jsonValue({ maxDepth: 1 }), fc.constant(undefined));
    fc.assert(
      fc.property(
        kind,
        number,
        fc.option(fc.integer({ min: 1, max: 2 ** 50 }), { nil: undefined }),
        meta,
        (...given) => {
          const [kind, number, deadlineMicros, meta] = given;
          const bytes = encodeEnvelope("x", { kind, number, deadlineMicros }, meta as never, 100_000);
          const arrived = new Arrived("x", bytes);
          assert.deepEqual([arrived.kind, arrived.number, arrived.deadlineMicros], [kind, number, deadlineMicros]);
          if (meta instanceof Uint8Array) assert.deepEqual([arrived.json, arrived.meta], [undefined, meta]);
          else assert.deepEqual(arrived.json, meta === undefined ? undefined : JSON.parse(JSON.stringify(meta)));
        },
      ),
    );
  });

  it("lies as docs/protocol.md says", () => {
    const bytes = encodeEnvelope("x", { kind: "request", number: 0x0102, deadlineMicros: 0x0304 }, [7], 100);
    assert.equal(
      Buffer.from(bytes).toString("hex"),
      `0201000000000000${"0201000000000000"}${"0403000000000000"}5b375d`,
    );
  });

  it("leaves the user so much meta as the channel has beyond it", () => {
    const meta = new Uint8Array(10);
    const envelope = { kind: "reply", number: 1 } as const;
    assert.equal(encodeEnvelope("x", envelope, meta, ENVELOPE_BYTES + 10).byteLength, ENVELOPE_BYTES + 10);
    assert.throws(() => encodeEnvelope("x", envelope, meta, ENVELOPE_BYTES + 9), { code: "MESSAGE_TOO_LARGE" });
  });

  it("refuses any bytes that are none with one error", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 60 }), (bytes) => {
        try {
          void new Arrived("x", bytes).json;
        } catch (error) {
          assert.ok(error instanceof CudaIpcError && error.code === "CHANNEL_CORRUPT");
        }
      }),
    );
    assert.throws(() => new Arrived("x", new Uint8Array(ENVELOPE_BYTES - 1)), { code: "CHANNEL_CORRUPT" });
    assert.throws(() => new Arrived("x", new Uint8Array(ENVELOPE_BYTES)), { code: "CHANNEL_CORRUPT" });
    assert.throws(() => new Arrived("x", new Uint8Array(ENVELOPE_BYTES).fill(255).fill(1, 0, 1)), {
      code: "CHANNEL_CORRUPT",
    });
  });
});

describe("what a worker says of an error", () => {
  it("fits into its limit, whatever the words", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary", maxLength: 5000 }), (text) => {
        const bytes = Buffer.byteLength(JSON.stringify(failureReport(new Error(text))));
        assert.ok(bytes <= limits.serviceReportBytesMax, `${bytes} bytes`);
      }),
      { numRuns: 30 },
    );
  });

  it("has the code or the name, and the words", () => {
    assert.equal(failureText(failureReport(new RangeError("too far"))), "RangeError: too far");
    assert.equal(failureText(failureReport(new CudaIpcError("OUT_OF_MEMORY", "no room"))), "OUT_OF_MEMORY: no room");
    assert.equal(failureText(failureReport("just so")), "Error: just so");
    assert.equal(failureText(7), "its worker did not say why");
  });
});

describe("what a worker says first", () => {
  const good = { v: 1, depth: 2, request: { dtype: "uint8", shape: [4], metaBytesMax: 280 } };

  it("is taken as it is", () => {
    assert.deepEqual(parseFacts("w", good).request.shape, [4]);
  });

  it("is refused where it is of another version, or asks for what is no channel", () => {
    const others = [
      undefined,
      { ...good, v: 2 },
      { ...good, depth: 0 },
      { ...good, depth: limits.serviceDepthMax + 1 },
      { ...good, more: 1 },
      { ...good, request: { ...good.request, dtype: "text" } },
      { ...good, request: { ...good.request, metaBytesMax: 3 } },
    ];
    for (const other of others) assert.throws(() => parseFacts("w", other), { code: "PROTOCOL_MISMATCH" });
  });
});
