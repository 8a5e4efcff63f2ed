/** What the hostile answers are made of: good ones, and changes of them. */
import {
  controlByteLength,
  control as controlWords,
  PAGE_BYTES,
  page as pageWords,
  writerStates,
} from "../../../src/ring/channel-layout.js";
import { createControlFile } from "../../../src/ring/control-file.js";
import { channelOf, hostArray, hostBundle, timelineDescriptor } from "../../support/messages.js";
import { hexOf } from "./hex.js";

export type Seal = "seal" | "shrink" | "grow" | "write";

/** A descriptor that comes with an answer. */
export interface HostileFile {
  readonly kind: "memory" | "huge" | "eventfd" | "pipe" | "null" | "socket" | "folder";
  readonly bytes?: number;
  /** All but "write" if missing. */
  readonly seals?: readonly Seal[];
  /** Opened again for reading alone. */
  readonly readOnly?: true;
  /** From its start, as text in Latin-1: each character is a byte. The rest is zero. */
  readonly content?: string;
  /** As lines of hex. The rest is zero. */
  readonly hex?: readonly string[];
  /** Bytes of memory in all, some of it behind its end. */
  readonly allocated?: number;
}

export const CALLS = [
  "connect",
  "array",
  "array to write",
  "bundle",
  "timeline",
  "reader",
  "writer",
  "create",
  "list",
] as const;
export type Call = (typeof CALLS)[number];

export interface HostileVector {
  readonly what: string;
  readonly call: Call;
  /**
   * In Latin-1: each character is a byte. `$ID` is the number of the request, and `$(3*x)` stands for
   * `xxx`.
   */
  readonly answers: readonly string[];
  /** Names of `files`, or files. They come with the first answer. */
  readonly fds: readonly (string | HostileFile)[];
  /** "OK" or the code of an error. */
  readonly verdict: string;
  /** Of an array: its dtype, shape and first element; of a bundle: the names, in hex. */
  readonly sees?: string;
}

const channel = channelOf({ readersMax: 1, metaBytesMax: 0, slots: 2 });
const controlBytes = controlByteLength(channel.content);

function controlFile(change: (words: DataView) => void = () => {}): string[] {
  const bytes = new Uint8Array(new SharedArrayBuffer(controlBytes));
  createControlFile(bytes.buffer, { ...channel.content, firstPosition: 0 });
  change(new DataView(bytes.buffer));
  return hexOf(bytes);
}

export const control = (change: (words: DataView) => void): HostileFile => ({
  kind: "memory",
  bytes: controlBytes,
  readOnly: true,
  hex: controlFile(change),
});

const awaited: HostileFile = {
  kind: "memory",
  hex: controlFile((words) => {
    words.setUint32(controlWords.whenWriterGone, 1, true);
    words.setUint32(controlWords.state, writerStates.awaited, true);
  }),
};

/** As the hub gives it to the reader with lease 9. */
function givenPage(): string[] {
  const words = new DataView(new ArrayBuffer(PAGE_BYTES));
  words.setBigUint64(pageWords.lease, 9n, true);
  words.setBigInt64(pageWords.done, BigInt("9223372036854775807"), true);
  return hexOf(new Uint8Array(words.buffer));
}

export const memory = (bytes: number, seals?: readonly Seal[]): HostileFile => ({
  kind: "memory",
  bytes,
  ...(seals && { seals }),
});

export const files: Readonly<Record<string, HostileFile>> = {
  memory: memory(4096),
  slots: memory(channel.byteLength),
  control: control(() => {}),
  "control of an awaited channel": { ...awaited, bytes: controlBytes },
  page: { kind: "memory", bytes: PAGE_BYTES, hex: givenPage() },
  bell: { kind: "eventfd" },
  pipe: { kind: "pipe" },
  socket: { kind: "socket" },
  folder: { kind: "folder" },
  "/dev/null": { kind: "null" },
  "huge pages": { kind: "huge", bytes: 2 * 1024 * 1024 },
  "unsealed memory": memory(4096, []),
  "memory that can shrink": memory(4096, ["grow", "seal"]),
  "memory that can grow": memory(4096, ["shrink", "seal"]),
  "memory to read": { ...memory(4096), readOnly: true },
  "short memory": memory(4095),
  "long memory": memory(8192),
  "no memory": memory(0),
  "memory with more behind its end": { ...memory(4096), allocated: 16384 },
};

/** JSON as it stands, where the standard writer would write something else. */
export class Raw {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

/** JSON, with each `Raw` as it stands. */
export function written(value: unknown): string {
  if (value instanceof Raw) return value.text;
  if (Array.isArray(value)) return `[${value.map(written).join(",")}]`;
  if (typeof value !== "object" || value === null) return latin1(JSON.stringify(value));
  const fields = Object.entries(value).filter(([, field]) => field !== undefined);
  const members = fields.map(([key, field]) => `${latin1(JSON.stringify(key))}:${written(field)}`);
  return `{${members.join(",")}}`;
}

function latin1(text: string): string {
  return Buffer.from(text).toString("latin1");
}

/** A copy in which the value at this path is another one; without it if that is undefined. */
export function set(value: unknown, path: string, other: unknown): unknown {
  const [key = "", ...rest] = path.split(".");
  if (key === "") return other;
  const copy = (Array.isArray(value) ? [...value] : { ...(value as object) }) as Record<
    string,
    unknown
  >;
  copy[key] = set(copy[key], rest.join("."), other);
  return copy;
}

const timeline = { ...timelineDescriptor, byteLength: 4096 };
const int32 = set(hostArray, "content.array.dtype", "int32");
export const INDEX = {
  version: 1,
  metadata: { k: "v" },
  arrays: [
    { name: "w", dtype: "int32", shape: [2], strides: [1], byteOffset: 0 },
    { name: "b", dtype: "uint8", shape: [], strides: [], byteOffset: 8 },
  ],
};

export const index = (text: string, change: Partial<HostileFile> = {}): HostileFile => ({
  kind: "memory",
  bytes: text.length,
  seals: ["shrink", "grow", "write", "seal"],
  content: text,
  ...change,
});

/** A good result of each call, and its descriptors. */
export const goods: Readonly<Record<Call, { result: unknown; fds: readonly string[] }>> = {
  connect: {
    result: { version: "0", instance: "i", pid: 1, session: 1, resumed: false },
    fds: [],
  },
  array: { result: { object: 3, lease: 9, descriptor: int32 }, fds: ["memory to read"] },
  "array to write": { result: { object: 3, lease: 9, descriptor: int32 }, fds: ["memory"] },
  bundle: {
    result: { object: 3, lease: 9, descriptor: hostBundle(2, 100) },
    fds: ["memory to read"],
  },
  timeline: { result: { object: 3, lease: 9, descriptor: timeline }, fds: ["memory to read"] },
  reader: {
    result: { object: 3, lease: 9, descriptor: channel, place: 0 },
    fds: ["slots", "control", "bell", "page", "bell"],
  },
  writer: {
    result: {
      object: 3,
      lease: 9,
      descriptor: set(channel, "content.whenWriterGone", "wait"),
    },
    fds: ["slots", "control of an awaited channel", "bell", "page", "bell"],
  },
  create: { result: { object: 3, lease: 9 }, fds: [] },
  list: { result: { objects: [], next: null }, fds: [] },
};

export function answer(result: unknown, change: Readonly<Record<string, unknown>> = {}): string {
  let reply: unknown = { v: 1, id: new Raw("$ID"), ok: true, result };
  for (const [path, other] of Object.entries(change)) reply = set(reply, path, other);
  return written(reply);
}
