/**
 * Compares the layouts in docs/protocol.md, and the hub's writes that it lists, with the sources.
 */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { limits } from "../../src/base/limits.js";
import { LINE_BYTES } from "../../src/base/timeline-line.js";
import * as group from "../../src/peer/group-layout.js";
import { beginSeat, endSeat, endWriter } from "../../src/ring/channel-end.js";
import {
  CLAIMS,
  control,
  controlByteLength,
  flags,
  HEADERS_AT,
  header,
  headerStrideOf,
  PAGE_BYTES,
  page as pageLayout,
  readerModes,
  readerStates,
  whenFullPolicies,
  whenWriterGonePolicies,
  writerStates,
} from "../../src/ring/channel-layout.js";
import { ENVELOPE_BYTES, kinds } from "../../src/service/envelope.js";
import { tableOf } from "./markdown-tables.js";
import { controlFields, type Field, headerFields, pageFields } from "./protocol-header.js";

const page = readFileSync("docs/protocol.md", "utf8");
const table = (heading: string, number?: number) => tableOf(page, heading, number);
const column = (heading: string, index: number, number?: number) =>
  table(heading, number).map((row) => row[index] ?? "");
function assertNumbers(
  rows: readonly (readonly string[])[],
  values: Readonly<Record<string, number>>,
): void {
  assert.deepEqual(
    rows.map(([number]) => Number(number)),
    Object.values(values).sort((one, other) => one - other),
  );
}

const TYPES = { u32: 4, u64: 8, i64: 8, f64: 8 } as const;

describe("the layouts in docs/protocol.md", () => {
  const typeOf = ({ name, kind, count }: Field) => {
    if (name === "magic") return "8 bytes";
    if (name === "ready") return "64 timelines";
    if (name === "done") return "timeline";
    return count === undefined ? kind : `${kind}[${count}]`;
  };
  const compare = (heading: string, fields: readonly Field[], rest: readonly string[]) => {
    const rows = table(heading).map(([at, type, name]) => `${at} ${type} ${name}`);
    const wanted = fields.map((field) => `${field.at} ${typeOf(field)} ${field.name}`);
    assert.deepEqual(rows, [...wanted, ...rest]);
  };

  it("have each word of the control file, of a header and of a page at its offset", () => {
    compare("The control file", controlFields, [`${HEADERS_AT} headers `]);
    compare("The header of a slot", headerFields, [`${header.meta} bytes meta`]);
    compare("The page of a reader", pageFields, []);
  });

  it("leave no word out", () => {
    assert.equal(controlFields.length, Object.keys(control).length);
    assert.equal(headerFields.length, Object.keys(header).length - 1);
    assert.equal(pageFields.length, Object.keys(pageLayout).length);
    for (const fields of [controlFields, headerFields, pageFields]) {
      for (const [index, { at, kind, count = 1 }] of fields.entries()) {
        const next = fields[index + 1]?.at ?? Number.POSITIVE_INFINITY;
        assert.ok(at + TYPES[kind] * count <= next && at % TYPES[kind] === 0);
      }
    }
  });

  it("would be found to differ", () => {
    const other = page.replace("| 192 | u64 | `limit` |", "| 200 | u64 | `limit` |");
    assert.notDeepEqual(tableOf(other, "The control file"), table("The control file"));
  });

  it("have the numbers of states, modes, flags and policies", () => {
    assertNumbers(table("The control file", 1), writerStates);
    assertNumbers(table("The header of a slot", 1), flags);
    assertNumbers(table("The page of a reader", 1), readerStates);
    assertNumbers(table("The page of a reader", 2), readerModes);
    for (const [heading, number, names] of [
      ["The control file", 1, Object.keys(writerStates)],
      ["The page of a reader", 1, Object.keys(readerStates)],
    ] as const) {
      for (const [index, words] of column(heading, 1, number).entries())
        assert.ok(words.startsWith(names[index] ?? "?"), words);
    }
    const initial = (name: string) =>
      table("The control file").find(([, , found]) => found === name)?.[4];
    const listed = (names: readonly string[]) =>
      names.map((name, index) => `${index} ${name}`).join(", ");
    assert.equal(initial("whenFull"), listed(whenFullPolicies));
    assert.equal(initial("whenWriterGone"), listed(whenWriterGonePolicies));
    for (const [at, , name] of table("Timelines"))
      assert.equal(at, { value: "0", final: "8", awaited: "16", unused: "24" }[String(name)]);
  });

  it("have the lengths of files and what they are made of", () => {
    assert.ok(page.includes(`has ${HEADERS_AT} + \`slots\` * \`headerStride\` bytes, at most`));
    assert.ok(page.includes(String(limits.channelControlBytesMax)));
    assert.equal(headerStrideOf(65), 256);
    assert.equal(controlByteLength({ slots: 3, metaBytesMax: 65 }), HEADERS_AT + 3 * 256);
    assert.match(page, new RegExp(`^${PAGE_BYTES} bytes\\. That reader alone`, "m"));
    assert.ok(page.includes(`in a line of ${LINE_BYTES} bytes`));
    assert.ok(page.includes(`${CLAIMS} slots are held`));
    assert.ok(page.includes(`is at most ${limits.timelineMemoryBytesMax}.`));
  });

  it("have the meta of a service's messages, and its kinds", () => {
    assert.deepEqual(column("Links of a service", 0, 1), ["0", "1", "2", "8", "16", "24"]);
    assert.ok(page.includes(`begins with ${ENVELOPE_BYTES} bytes`));
    const rows = table("Links of a service", 2).map(([number, name]) => [name, Number(number)]);
    assert.deepEqual(Object.fromEntries(rows), kinds);
  });

  it("have the words of a group", () => {
    const at = (index: number) => index * 8 - group.wordIndex(0, "arrived") * 8;
    const wanted = [
      group.wordIndex(0, "arrived"),
      group.wordIndex(0, "ended"),
      group.gatheredIndex(0, 0),
      group.gatheredIndex(0, 1),
    ].map((index) => String(at(index)));
    assert.deepEqual(column("Groups", 0, 1), wanted);
    assert.ok(page.includes(`magic \`0x${group.GROUP_MAGIC.toString(16)}\``));
    assert.ok(page.includes(`two slots of ${limits.gatherBytesMax} bytes`));
    assert.equal(group.END_RANKS * group.END_REASONS, 4096n);
    assert.equal(group.GATHERED_LENGTHS, 2n ** 20n);
  });
});

describe("what docs/protocol.md says that the hub writes into a channel", () => {
  /** The words that are written, by their offsets, in order. */
  function writes(act: (file: Parameters<typeof beginSeat>[0]) => unknown, state = 1): number[] {
    const bytes = new Uint8Array(HEADERS_AT);
    new DataView(bytes.buffer).setUint32(control.state, state, true);
    const found: number[] = [];
    act({
      read: (at, into) => into.set(bytes.subarray(at, at + into.byteLength)),
      write: (at, from) => {
        found.push(at);
        bytes.set(from, at);
      },
    });
    return found;
  }
  const namesOf = (offsets: readonly number[], layout: Readonly<Record<string, number>>) => {
    const inOrder = Object.entries(layout).sort((one, other) => other[1] - one[1]);
    const names = offsets.map((at) => inOrder.find(([, from]) => from <= at)?.[0]);
    return [...new Set(names)];
  };
  const rows = table("What the hub writes");
  /** The names in backticks, in the order in which they first stand there. */
  const named = (cell: string, layout: Readonly<Record<string, number>>) =>
    [...new Set(cell.match(/\b[a-zA-Z]+\b/g))].filter((name) => name in layout);

  it("is what it writes, in that order", () => {
    const [begins = "", ends = ""] = rows.map(([, what]) => what ?? "");
    const withoutKept = begins.replace(" asleep stays", "");
    assert.deepEqual(
      named(withoutKept, pageLayout),
      namesOf(
        writes((file) => beginSeat(file, 9)),
        pageLayout,
      ),
    );
    assert.deepEqual(
      named(ends, pageLayout),
      namesOf(
        writes((file) => endSeat(file)),
        pageLayout,
      ),
    );
    const ended = writes((file) => endWriter(file, "gone"));
    assert.deepEqual(namesOf(ended, control), ["ready", "state"]);
  });

  it("is the state that a writer leaves", () => {
    const { closed, open, awaited, gone } = writerStates;
    const stateAfter = (before: number, next: "awaited" | "removed" | "gone") => {
      let written = before;
      writes((file) => {
        endWriter(
          {
            ...file,
            write: (at, bytes) => {
              if (at === control.state) written = bytes[0] ?? 0;
              file.write(at, bytes);
            },
          },
          next,
        );
      }, before);
      return written;
    };
    const becomes = column("What the hub writes", 2, 1).map((cell) => Number(cell[0]));
    assert.deepEqual(becomes, [
      stateAfter(closed, "awaited"),
      stateAfter(open, "awaited"),
      stateAfter(awaited, "removed"),
      stateAfter(open, "removed"),
    ]);
    assert.equal(stateAfter(open, "gone"), gone);
  });
});
