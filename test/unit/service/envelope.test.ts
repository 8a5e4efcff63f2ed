/** The envelope before the meta: encoded, decoded, and refused. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { CudaIpcError } from "../../../src/base/errors.js";
import { limits } from "../../../src/base/limits.js";
import {
  ENVELOPE_BYTES,
  encodeEnvelope,
  type Kind,
  kinds,
  monotonicMicros,
  ReceivedEnvelope,
  withDeadline,
  withTimeLeft,
} from "../../../src/service/envelope.js";
import { failureReport, failureText } from "../../../src/service/failure-report.js";
import { parseFacts } from "../../../src/service/service-facts.js";

const kind = fc.constantFrom(...(Object.keys(kinds) as Kind[]));
const number = fc.maxSafeNat();

describe("the envelope of a service's messages", () => {
  it("decodes to what was encoded, with its meta", () => {
    const meta = fc.oneof(
      fc.uint8Array({ maxLength: 20 }),
      fc.jsonValue({ maxDepth: 1 }),
      fc.constant(undefined),
    );
    fc.assert(
      fc.property(
        kind,
        number,
        fc.option(fc.integer({ min: 1, max: 2 ** 50 }), { nil: undefined }),
        meta,
        (...given) => {
          const [kind, number, deadlineMicros, meta] = given;
          const bytes = encodeEnvelope(
            "x",
            { kind, number, deadlineMicros },
            meta as never,
            100_000,
          );
          const arrived = new ReceivedEnvelope("x", bytes);
          assert.deepEqual(
            [arrived.kind, arrived.number, arrived.deadlineMicros],
            [kind, number, deadlineMicros],
          );
          if (meta instanceof Uint8Array)
            assert.deepEqual([arrived.json, arrived.meta], [undefined, meta]);
          else
            assert.deepEqual(
              arrived.json,
              meta === undefined ? undefined : JSON.parse(JSON.stringify(meta)),
            );
        },
      ),
    );
  });

  it("has the layout of docs/protocol.md", () => {
    const bytes = encodeEnvelope(
      "x",
      { kind: "request", number: 0x0102, deadlineMicros: 0x0304 },
      [7],
      100,
    );
    assert.equal(
      Buffer.from(bytes).toString("hex"),
      `0201000000000000${"0201000000000000"}${"0403000000000000"}5b375d`,
    );
  });

  it("leaves the user the rest of the channel's meta bytes", () => {
    const meta = new Uint8Array(10);
    const envelope = { kind: "reply", number: 1 } as const;
    assert.equal(
      encodeEnvelope("x", envelope, meta, ENVELOPE_BYTES + 10).byteLength,
      ENVELOPE_BYTES + 10,
    );
    assert.throws(() => encodeEnvelope("x", envelope, meta, ENVELOPE_BYTES + 9), {
      code: "MESSAGE_TOO_LARGE",
    });
  });

  it("refuses malformed bytes with CHANNEL_CORRUPT", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 60 }), (bytes) => {
        try {
          void new ReceivedEnvelope("x", bytes).json;
        } catch (error) {
          assert.ok(error instanceof CudaIpcError && error.code === "CHANNEL_CORRUPT");
        }
      }),
    );
    assert.throws(() => new ReceivedEnvelope("x", new Uint8Array(ENVELOPE_BYTES - 1)), {
      code: "CHANNEL_CORRUPT",
    });
    assert.throws(() => new ReceivedEnvelope("x", new Uint8Array(ENVELOPE_BYTES)), {
      code: "CHANNEL_CORRUPT",
    });
    assert.throws(
      () => new ReceivedEnvelope("x", new Uint8Array(ENVELOPE_BYTES).fill(255).fill(1, 0, 1)),
      {
        code: "CHANNEL_CORRUPT",
      },
    );
  });
});

describe("the text of a worker's error", () => {
  it("fits into its limit, whatever the message", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary", maxLength: 5000 }), (text) => {
        const bytes = Buffer.byteLength(JSON.stringify(failureReport(new Error(text))));
        assert.ok(bytes <= limits.serviceReportBytesMax, `${bytes} bytes`);
      }),
      { numRuns: 30 },
    );
  });

  it("has the code or the error's name, and the message", () => {
    assert.equal(failureText(failureReport(new RangeError("too far"))), "RangeError: too far");
    assert.equal(
      failureText(failureReport(new CudaIpcError("OUT_OF_MEMORY", "no room"))),
      "OUT_OF_MEMORY: no room",
    );
    assert.equal(failureText(failureReport("just so")), "Error: just so");
    assert.equal(failureText(7), "an error that its worker did not describe");
  });
});

describe("a worker's first message", () => {
  const good = { v: 1, depth: 2, request: { dtype: "uint8", shape: [4], metaBytesMax: 280 } };

  it("is read back as it was sent", () => {
    assert.deepEqual(parseFacts("w", good).request.shape, [4]);
  });

  it("is refused if its version differs or no channel can have its shape", () => {
    const others = [
      undefined,
      { ...good, v: 2 },
      { ...good, depth: 0 },
      { ...good, depth: limits.serviceDepthMax + 1 },
      { ...good, more: 1 },
      { ...good, request: { ...good.request, dtype: "text" } },
      { ...good, request: { ...good.request, metaBytesMax: 3 } },
    ];
    for (const other of others)
      assert.throws(() => parseFacts("w", other), { code: "PROTOCOL_MISMATCH" });
  });
});

describe("a request's deadline on its way to another machine", () => {
  const HOUR = 3_600_000_000;
  const request = (deadlineMicros: number | undefined) =>
    encodeEnvelope("x", { kind: "request", number: 7, deadlineMicros }, "meta", 100);
  const deadlineOf = (bytes: Uint8Array) => new ReceivedEnvelope("x", bytes).deadlineMicros;

  it("is the time that is left, which is added to the clock there", () => {
    const before = monotonicMicros();
    const left = withTimeLeft(request(before + HOUR));
    const leftMicros = deadlineOf(left) ?? 0;
    assert.ok(leftMicros <= HOUR && leftMicros > HOUR / 2, `${leftMicros} us`);
    // As the bytes of a frame are decoded: in memory with other things before them.
    const arrived = Buffer.from(Buffer.from(left).toString("base64"), "base64");
    const there = new ReceivedEnvelope("x", withDeadline(arrived));
    assert.ok((there.deadlineMicros ?? 0) >= before + leftMicros);
    assert.ok((there.deadlineMicros ?? 0) <= monotonicMicros() + leftMicros);
    assert.deepEqual([there.kind, there.number, there.json], ["request", 7, "meta"]);
  });

  it("stays over, or absent", () => {
    assert.equal(deadlineOf(withTimeLeft(request(1))), 1);
    assert.equal(deadlineOf(withTimeLeft(request(undefined))), undefined);
    assert.equal(deadlineOf(withDeadline(request(undefined))), undefined);
    assert.equal(deadlineOf(withDeadline(request(2 ** 53 - 1))), 2 ** 53 - 1);
  });

  it("is in requests alone: all else stays as it is, whatever it is", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 40 }), (bytes) => {
        if (bytes[0] === kinds.request && bytes.byteLength >= ENVELOPE_BYTES) return;
        assert.equal(withTimeLeft(bytes), bytes);
        assert.equal(withDeadline(bytes), bytes);
      }),
    );
    const hostile = Uint8Array.of(kinds.request, ...new Uint8Array(23).fill(255));
    assert.throws(() => new ReceivedEnvelope("x", withDeadline(hostile)), {
      code: "CHANNEL_CORRUPT",
    });
  });
});
