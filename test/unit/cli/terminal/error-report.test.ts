import assert from "node:assert/strict";
import { Writable } from "node:stream";
import { describe, it } from "node:test";
import { type ErrorCode, errorCodes } from "../../../../src/base/error-codes.js";
import { CudaIpcError, SystemError } from "../../../../src/base/errors.js";
import {
  describeErrors,
  printErrors,
  UsageError,
} from "../../../../src/cli/terminal/error-report.js";
import { Terminal } from "../../../../src/cli/terminal/terminal.js";

function catching(): { terminal: Terminal; texts: { out: string; err: string } } {
  const texts = { out: "", err: "" };
  const into = (key: "out" | "err") =>
    new Writable({
      write(chunk, _encoding, done) {
        texts[key] += String(chunk);
        done();
      },
    });
  return { terminal: new Terminal(into("out"), into("err")), texts };
}

describe("printErrors", () => {
  it("prints the code, the message and what to do", () => {
    const { terminal, texts } = catching();
    printErrors(terminal, new CudaIpcError("NOT_FOUND", 'Cannot open "x": there is none'));
    assert.equal(
      texts.err,
      `error[NOT_FOUND]: Cannot open "x": there is none.\n  hint: ${errorCodes.NOT_FOUND.remedy}\n`,
    );
    assert.equal(texts.out, "");
  });

  it("prints every error of several", () => {
    const { terminal, texts } = catching();
    printErrors(
      terminal,
      new AggregateError([
        new CudaIpcError("TIMEOUT", "First"),
        new CudaIpcError("HUB_GONE", "Second"),
      ]),
    );
    assert.match(texts.err, /^error\[TIMEOUT\]: First\.\n.+\nerror\[HUB_GONE\]: Second\.\n.+\n$/);
  });

  it("says what to do about a path", () => {
    const system = { errno: 2, errnoName: "ENOENT", call: "open" };
    const [report] = describeErrors(new SystemError("INVALID_FILE", "Cannot read", system));
    assert.equal(report?.hint, "Check the path.");
  });

  const hints: readonly (readonly [ErrorCode, string, RegExp])[] = [
    ["HUB_GONE", "The connection to the hub at /x has ended", /^Run the command again\.$/],
    [
      "TIMEOUT",
      "Cannot connect to the hub at /x: not done within 10000 ms; the hub does not answer",
      /^If the hub stays silent, .+kill -9/,
    ],
    [
      "TIMEOUT",
      'Cannot inspect "x": not done within 30000 ms; the hub (process 7) does not answer: it runs',
      /^If the hub stays silent, /,
    ],
    ["TIMEOUT", "The demo was not done within 60 s", /^Raise timeoutMs/],
    [
      "TIMEOUT",
      'Cannot open "x": not done within 10 ms; no process has created "x"',
      /^Start the process that publishes it, /,
    ],
    [
      "TIMEOUT",
      'Cannot open "x": not done within 10 ms; no machine whose bridge runs has announced it',
      /--announce/,
    ],
    ["FILE_EXISTS", 'Cannot write "x": the file is there already', / with --force\.$/],
    [
      "FILE_EXISTS",
      'Cannot write "a\nb": something other than a file is there',
      /^Use another path\.$/,
    ],
    ["INVALID_FILE", 'Cannot read "x": it has 5 bytes, header claims 8', /^Check the path\. /],
  ];
  for (const [code, message, hint] of hints) {
    it(`says what to do: ${JSON.stringify(message)}`, () => {
      assert.match(describeErrors(new CudaIpcError(code, message))[0]?.hint ?? "", hint);
    });
  }

  it("has no hint for wrong usage, and calls a bug of ours a bug", () => {
    assert.deepEqual(describeErrors(new UsageError("no")), [
      { code: "USAGE", message: "no.", hint: undefined },
    ]);
    const [report] = describeErrors(new TypeError("boom"));
    assert.equal(report?.code, "INTERNAL");
    assert.match(report?.message ?? "", /TypeError: boom\n +at /);
  });
});

describe("Terminal", () => {
  it("writes numbers that JSON cannot hold as strings", () => {
    const { terminal, texts } = catching();
    terminal.json({
      big: 2n ** 64n,
      nan: Number.NaN,
      infinite: Number.NEGATIVE_INFINITY,
      plain: 1.5,
    });
    assert.deepEqual(JSON.parse(texts.out), {
      big: "18446744073709551616",
      nan: "NaN",
      infinite: "-Infinity",
      plain: 1.5,
    });
  });

  it("uses no colours unless it is a terminal", () => {
    const { terminal } = catching();
    assert.equal(terminal.style("red", "x"), "x");
    assert.equal(terminal.noteStyle("red", "x"), "x");
    assert.equal(terminal.progressStream, undefined);
  });
});
