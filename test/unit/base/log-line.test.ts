import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { type LogFormat, logFormats } from "../../../src/base/log-events.js";
import { logLine } from "../../../src/base/log-line.js";

const time = new Date("2026-11-24T10:20:30.456Z");

function line(format: LogFormat, message: string, name?: string): string {
  return logLine(format, { time, event: "client-refused", message, fields: { uid: 7, name } });
}

/** What a client might put into its program's name or an object's. */
const HOSTILE = {
  "a line break": 'x\n2026-11-24T10:20:30.456Z  forged"}\n{"level":"error"',
  "a carriage return": "x\rforged",
  "an escape sequence": "\u001b[2J\u001b]0;title\u0007",
  "a C1 escape": "\u009b31m",
  "a line separator": "x\u2028y\u2029z\u0085",
  "reversed text": "\u202egnp.exe",
  DEL: "\u007f",
  "an invalid character": "x\ud800y",
  "bytes that are not UTF-8": new TextDecoder().decode(Uint8Array.of(0xff, 0xfe, 0x41)),
  "a quote and a backslash": '"\\',
  "a zero": "x\0y",
};

describe("a line of the log", () => {
  it("has time and message as text", () => {
    assert.equal(line("text", "refused"), "2026-11-24T10:20:30.456Z  refused\n");
  });

  it("has time, level, event, message and the fields that are set as JSON", () => {
    assert.deepEqual(JSON.parse(line("json", "refused")), {
      time: "2026-11-24T10:20:30.456Z",
      level: "info",
      event: "client-refused",
      message: "refused",
      uid: 7,
    });
  });

  for (const [what, text] of Object.entries(HOSTILE)) {
    for (const format of logFormats) {
      it(`stays one printable line with ${what} in it (${format})`, () => {
        const written = line(format, text, text);
        assert.doesNotMatch(written.slice(0, -1), /[\p{Cc}\p{Bidi_Control}\u2028\u2029]/u);
        assert.ok(written.endsWith("\n"));
      });
    }

    it(`says ${what} exactly as JSON`, () => {
      const { message, name } = JSON.parse(line("json", text, text));
      assert.deepEqual([message, name], [text, text]);
    });
  }

  it("is cut off where a pipe might tear it", () => {
    for (const format of logFormats) {
      const bytes = Buffer.byteLength(line(format, "\n".repeat(10_000), "n".repeat(255)));
      assert.ok(bytes <= 4096, `${bytes} bytes`);
      assert.match(line(format, "x".repeat(501)), /x{500}\.\.\./);
    }
  });
});
