/** A channel, made from the source: files in hex, and a trace of its ring. */
import { beginSeat, endSeat, endWriter, type WordsFile } from "../../../src/ring/channel-end.js";
import {
  type ChannelFacts,
  controlByteLength,
  flags,
  HEADERS_AT,
  PAGE_BYTES,
} from "../../../src/ring/channel-layout.js";
import { createControlFile } from "../../../src/ring/control-file.js";
import { PageWords } from "../../../src/ring/page-words.js";
import { RingReader } from "../../../src/ring/ring-reader.js";
import { RingWriter } from "../../../src/ring/ring-writer.js";
import {
  controlFields,
  type Field,
  headerFields,
  type Kind,
  pageFields,
  SIZES,
} from "../protocol-header.js";
import { HEX_NOTE, hexOf } from "./hex.js";

const facts: ChannelFacts = {
  slots: 2,
  readersMax: 1,
  slotBytes: 16,
  slotStride: 64,
  metaBytesMax: 8,
  whenFull: "wait",
  whenWriterGone: "wait",
  firstPosition: 0,
};

function fileOf(bytes: Uint8Array): WordsFile {
  return {
    read: (at, into) => into.set(bytes.subarray(at, at + into.byteLength)),
    write: (at, from) => bytes.set(from, at),
  };
}

const LEASE = 9;

interface Step {
  readonly step: string;
  /** `name = value`, for each word that has changed. */
  readonly changes: readonly string[];
  readonly rings: readonly string[];
}

class Trace {
  readonly controlBytes = new Uint8Array(new SharedArrayBuffer(controlByteLength(facts)));
  readonly pageBytes = new Uint8Array(new SharedArrayBuffer(PAGE_BYTES));
  readonly steps: Step[] = [];
  readonly rings: string[] = [];
  #before = this.#words();

  step(step: string): void {
    const now = this.#words();
    const changed = [...now].filter(([name, value]) => this.#before.get(name) !== value);
    const changes = changed.map(([name, value]) => `${name} = ${value}`);
    this.steps.push({ step, changes, rings: this.rings.splice(0) });
    this.#before = now;
  }

  #words(): Map<string, string> {
    const words = new Map<string, string>();
    const stride = (controlByteLength(facts) - HEADERS_AT) / facts.slots;
    note(words, "control", this.controlBytes, controlFields, 0);
    for (let slot = 0; slot < facts.slots; slot += 1)
      note(words, `header ${slot}`, this.controlBytes, headerFields, HEADERS_AT + slot * stride);
    note(words, "page", this.pageBytes, pageFields, 0);
    return words;
  }
}

function note(
  words: Map<string, string>,
  file: string,
  bytes: Uint8Array,
  fields: readonly Field[],
  start: number,
): void {
  const view = new DataView(bytes.buffer, bytes.byteOffset);
  for (const { name, at, kind, count } of fields) {
    for (let index = 0; index < (count ?? 1); index += 1) {
      const offset = start + at + index * SIZES[kind];
      const label = `${file}.${name}${count === undefined ? "" : `[${index}]`}`;
      words.set(label, String(read(view, kind, offset)));
    }
  }
}

function read(view: DataView, kind: Kind, at: number): number | bigint {
  if (kind === "u32") return view.getUint32(at, true);
  if (kind === "f64") return view.getFloat64(at, true);
  return kind === "u64" ? view.getBigUint64(at, true) : view.getBigInt64(at, true);
}

/** docs/protocol/vectors/ring.json */
export function ringVectors(): object {
  const trace = new Trace();
  const { controlBytes, pageBytes } = trace;
  const words = createControlFile(controlBytes.buffer, facts);
  const freshControl = hexOf(controlBytes);
  trace.step("the creator writes the control file");
  const pageWords = new PageWords(pageBytes.buffer);
  const writer = new RingWriter(words, [pageWords], () => trace.rings.push("the reader's bell"));
  beginSeat(fileOf(pageBytes), LEASE);
  const givenPage = hexOf(pageBytes);
  trace.step(`the hub gives the place to a reader with lease ${LEASE}`);
  const reader = new RingReader(words, pageWords, {
    label: "trace",
    seat: 0,
    lease: LEASE,
    from: "next",
    lossy: false,
    ring: () => trace.rings.push("the room bell"),
  });
  trace.step("the reader attaches: waited for, from next");
  const message = {
    timestampMs: 1.5,
    byteLength: 16,
    readyAt: 0,
    epoch: 0,
    flags: 0,
    metaBytes: 0,
  };
  writer.reserve();
  trace.step("the writer reserves position 0");
  writer.commit(message);
  trace.step("the writer commits 16 bytes");
  const first = reader.tryTake();
  trace.step("the reader takes the message: it writes nothing");
  writer.reserve();
  words.setShape(1, [2]);
  words.meta(1, 8).set(Buffer.from("[1]"));
  writer.commit({ ...message, byteLength: 2, flags: flags.json | flags.shaped, metaBytes: 3 });
  const messageHeader = hexOf(controlBytes.subarray(headerAt(1), headerAt(2)));
  trace.step("the writer commits 2 bytes with a shape and meta [1]");
  writer.reserve();
  trace.step("the writer finds no free slot");
  writer.fallAsleep();
  trace.step("the writer says that it sleeps, and looks once more");
  if (first !== undefined) reader.release(first);
  trace.step("the reader gives the first message back");
  writer.wakeUp();
  writer.reserve();
  trace.step("the writer wakes, and reserves position 2");
  const second = reader.tryTake();
  if (second !== undefined) reader.release(second);
  trace.step("the reader takes the second message, and gives it back");
  reader.fallAsleep();
  trace.step("the reader says that it sleeps, and looks once more");
  writer.passOver();
  trace.step("the writer passes position 2 over");
  reader.wakeUp();
  reader.tryTake();
  trace.step("the reader wakes, finds no message at position 2, and goes past it");
  reader.detach();
  trace.step("the reader leaves");
  endSeat(fileOf(pageBytes));
  trace.step("the hub ends its lease");
  endWriter(fileOf(controlBytes), "awaited");
  trace.step("the writer dies; the hub ends its lease");
  return {
    note: HEX_NOTE,
    facts,
    freshControlFile: { byteLength: controlBytes.byteLength, lines: freshControl },
    freshPage: { byteLength: PAGE_BYTES, lines: [] },
    pageOfNewReader: { byteLength: PAGE_BYTES, lines: givenPage },
    headerOfMessage: { byteLength: headerAt(1) - headerAt(0), lines: messageHeader },
    trace: trace.steps,
  };
}

function headerAt(slot: number): number {
  return HEADERS_AT + slot * ((controlByteLength(facts) - HEADERS_AT) / facts.slots);
}
