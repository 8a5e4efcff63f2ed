import assert from "node:assert/strict";
import { Writable } from "node:stream";
import { describe, it } from "node:test";
import { CudaIpcError } from "../../../../src/base/errors.js";
import { printInspection } from "../../../../src/cli/inspect/inspection-text.js";
import { printErrors } from "../../../../src/cli/terminal/error-report.js";
import { printable, printableStyled } from "../../../../src/cli/terminal/printable.js";
import { formatTable } from "../../../../src/cli/terminal/table.js";
import { Terminal } from "../../../../src/cli/terminal/terminal.js";

const HOSTILE = "a\u001b[2Jb\nc\u009b1md\u007fe\u202ef\u2066g\u2028h\r\ti";
const ESCAPED = "a\\u001b[2Jb\\u000ac\\u009b1md\\u007fe\\u202ef\\u2066g\\u2028h\\u000d\\u0009i";

function catching(isTTY: boolean): { terminal: Terminal; texts: string[] } {
  const texts: string[] = [];
  const stream = new Writable({
    write(chunk, _encoding, done) {
      texts.push(String(chunk));
      done();
    },
  });
  Object.assign(stream, { isTTY, hasColors: () => true });
  return { terminal: new Terminal(stream, stream), texts };
}

describe("printable", () => {
  it("escapes only control characters, C1, DEL and characters that reverse text", () => {
    assert.equal(printable(HOSTILE), ESCAPED);
    assert.equal(printable("läng 名前 👩‍💻 \\u"), "läng 名前 👩‍💻 \\u");
  });

  it("keeps our own styles, and only those", () => {
    assert.equal(
      printableStyled("\u001b[1mx\u001b[22m\u001b[8my"),
      "\u001b[1mx\u001b[22m\\u001b[8my",
    );
  });
});

describe("printed text", () => {
  it("has cells as wide as their escaped text", () => {
    assert.deepEqual(formatTable([{ title: "A" }, { title: "B" }], [["\n", "x"]]), [
      "A       B",
      "\\u000a  x",
    ]);
  });

  it("has no control characters in lines, notes and errors, also on a terminal", () => {
    for (const isTTY of [false, true]) {
      const { terminal, texts } = catching(isTTY);
      terminal.line(HOSTILE);
      terminal.note(HOSTILE);
      printErrors(
        terminal,
        new CudaIpcError("INVALID_FILE", `Cannot read ${HOSTILE} \u001b[31mred`),
      );
      assert.deepEqual(texts.slice(0, 2), [`${ESCAPED}\n`, `${ESCAPED}\n`]);
      assert.ok(texts[2]?.endsWith(`: Cannot read ${ESCAPED} \\u001b[31mred.\n`), texts[2]);
    }
  });

  it("means the same in JSON", () => {
    const { terminal, texts } = catching(true);
    terminal.json({ [HOSTILE]: HOSTILE });
    assert.deepEqual(JSON.parse(texts.join("")), { [HOSTILE]: HOSTILE });
    assert.doesNotMatch(texts.join("").replaceAll("\n", ""), /[\p{Cc}\p{Bidi_Control}]/u);
  });

  it("has no control characters in names, metadata and programs of an inspection", () => {
    const { terminal, texts } = catching(false);
    const descriptor = {
      byteLength: 0,
      allocationByteLength: 4096,
      mechanism: "memfd",
      device: { kind: "host" },
      content: { kind: "bundle", arrayCount: 1 },
    } as never;
    const layout = {
      dtype: "int8",
      shape: [0],
      strides: [1],
      byteOffset: 0,
      byteLength: 0,
    } as const;
    const sharing = { with: "private", access: "read" };
    const state = {
      lifetime: "held",
      published: true,
      leases: 1,
      createdAtMs: 0,
      unheldSinceMs: null,
      ownerPid: null,
      ownerUid: 0,
      sharing,
    };
    const object = { name: HOSTILE, descriptor, ...state } as never;
    const holders = [{ pid: 1, program: HOSTILE, access: "read" }] as never;
    const array = { name: HOSTILE, ...layout };
    const opened = {
      metadata: { [HOSTILE]: HOSTILE },
      arrays: [array],
      array,
      unreadable: HOSTILE,
    };
    printInspection(terminal, { object, holders, holdersLeftOut: 0 }, opened, false);
    const text = texts.join("");
    assert.doesNotMatch(text.replaceAll("\n", ""), /[\p{Cc}\p{Bidi_Control}]/u);
    assert.equal(text.split(ESCAPED).length - 1, 7);
  });
});
