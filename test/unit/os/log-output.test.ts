import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import fs, {
  closeSync,
  constants,
  fstatSync,
  openSync,
  readFileSync,
  readSync,
  statSync,
  writeSync,
} from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { describe, it } from "node:test";
import { type LogFormat, type LogSettings, logFormats } from "../../../src/base/log-events.js";
import { dropOldLines, logTo } from "../../../src/os/log-output.js";
import { TestFolder } from "../../support/test-folder.js";

const TEXT: LogSettings = { level: "info", format: "text" };

/** The messages of the lines, without their times. */
function messages(text: string): string[] {
  return text
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => line.replace(/^\S+Z {2}/, ""));
}

/** A pipe with both ends in this process. */
class Pipe implements Disposable {
  readonly #folder = new TestFolder();
  readonly reader: number;
  readonly writer: number;

  constructor() {
    const path = this.#folder.file("pipe");
    assert.equal(spawnSync("mkfifo", [path]).status, 0);
    this.reader = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
    // Blocking, as a shell makes it.
    this.writer = openSync(path, constants.O_WRONLY);
  }

  /** Everything that lies in it. */
  read(): string {
    const bytes = Buffer.alloc(1024 * 1024);
    return bytes.toString("utf8", 0, readSync(this.reader, bytes));
  }

  closeWriter(): void {
    closeSync(this.writer);
    this.#folder[Symbol.dispose]();
  }

  [Symbol.dispose](): void {
    closeSync(this.reader);
    this.closeWriter();
  }
}

describe("a log on a descriptor", () => {
  it("has lines of its level and above", () => {
    using pipe = new Pipe();
    for (const level of ["error", "warn", "info", "debug"] as const) {
      const log = logTo(pipe.writer, { level, format: "text" });
      log("client-connected", `debug at ${level}`);
      log("hub-started", `info at ${level}`);
      log("keeper-ended", `warn at ${level}`);
      log("object-lost", `error at ${level}`);
    }
    assert.deepEqual(messages(pipe.read()), [
      "error at error",
      "warn at warn",
      "error at warn",
      "info at info",
      "warn at info",
      "error at info",
      "debug at debug",
      "info at debug",
      "warn at debug",
      "error at debug",
    ]);
  });

  it("drops lines instead of waiting for a reader, and then says how many", () => {
    using pipe = new Pipe();
    const log = logTo(pipe.writer, TEXT);
    for (let line = 0; line < 5000; line += 1) log("hub-started", `line ${line}`);
    const before = messages(pipe.read());
    assert.ok(before.length > 100 && before.length < 5000, `${before.length} lines`);
    assert.equal(before.at(-1), `line ${before.length - 1}`);
    log("hub-started", "again");
    const dropped = 5000 - before.length;
    assert.deepEqual(messages(pipe.read()), [
      `${dropped} lines before this one were dropped`,
      "again",
    ]);
    log("hub-started", "and on");
    assert.deepEqual(messages(pipe.read()), ["and on"]);
  });

  it("drops lines while its reader is gone or the disk is full", () => {
    const full = openSync("/dev/full", "w");
    const lonely = new Pipe();
    closeSync(lonely.reader);
    try {
      for (const fd of [full, lonely.writer, 999_999])
        logTo(fd, TEXT)("hub-started", "nobody reads this");
    } finally {
      closeSync(full);
      lonely.closeWriter();
    }
  });

  it("marks the level for systemd's journal, and for nothing else", () => {
    using pipe = new Pipe();
    const { dev, ino } = fstatSync(pipe.writer);
    const before = process.env.JOURNAL_STREAM;
    try {
      for (const stream of [`${dev}:${ino}`, `${dev}:${ino + 1}`, undefined]) {
        if (stream === undefined) delete process.env.JOURNAL_STREAM;
        else process.env.JOURNAL_STREAM = stream;
        const log = logTo(pipe.writer, { level: "debug", format: "text" });
        log("object-lost", "a");
        log("keeper-ended", "b");
        log("hub-started", "c");
        log("client-connected", "d");
      }
    } finally {
      if (before === undefined) delete process.env.JOURNAL_STREAM;
      else process.env.JOURNAL_STREAM = before;
    }
    const marks = pipe
      .read()
      .trimEnd()
      .split("\n")
      .map((line) => /^(<\d>)?\d{4}-/.exec(line)?.[1] ?? "-");
    assert.deepEqual(marks, ["<3>", "<4>", "<6>", "<7>", ...Array(8).fill("-")]);
  });

  const writers = ["a+", "a", "w"] as const;
  const kinds = logFormats.flatMap((format) => writers.map((flags) => ({ format, flags })));
  for (const { format, flags } of kinds) {
    it(`keeps the last lines of a file that grows over 4 MiB (${format}, "${flags}")`, () => {
      using folder = new TestFolder();
      const path = folder.file("log");
      fill(path, flags, format, 200_000);
      const { size } = statSync(path);
      assert.ok(size > 1024 * 1024 && size < 5 * 1024 * 1024, `${size} bytes`);
      const lines = readFileSync(path, "utf8").trimEnd().split("\n");
      assert.match(lines[0] ?? "", DROPPED[format]);
      assert.equal(lines.at(-1), numbered(199_999));
      assert.ok(lines.slice(1).every((line) => /^line \d{40}$/.test(line)));
    });
  }

  it("drops all earlier lines of a file that cannot be opened for reading", (t) => {
    using folder = new TestFolder();
    const path = folder.file("log");
    const fd = openSync(path, "a");
    try {
      writeSync(fd, new Uint8Array(5 * 1024 * 1024));
      const { mock } = t.mock.method(fs, "openSync", () => {
        throw new Error("refused");
      });
      syncBuiltinESMExports();
      dropOldLines(fd, "text");
      mock.restore();
      syncBuiltinESMExports();
      writeSync(fd, "next\n");
    } finally {
      closeSync(fd);
    }
    assert.equal(readFileSync(path, "utf8"), "(earlier lines were dropped)\nnext\n");
  });
});

const DROPPED: Readonly<Record<LogFormat, RegExp>> = {
  text: /^\(earlier lines were dropped\)$/,
  json: /^\{"time":"[^"]+Z","level":"warn","event":"lines-dropped","message":"earlier lines .*"\}$/,
};

function numbered(count: number): string {
  return `line ${String(count).padStart(40, "0")}`;
}

function fill(path: string, flags: string, format: LogFormat, count: number): void {
  const fd = openSync(path, flags);
  try {
    for (let line = 0; line < count; line += 1) {
      writeSync(fd, `${numbered(line)}\n`);
      if (line % 1000 === 0) dropOldLines(fd, format);
    }
  } finally {
    closeSync(fd);
  }
}
