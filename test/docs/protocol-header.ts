/** Makes include/cuda_ipc_protocol.h from the sources. */

import { dtypeNames, dtypes } from "../../src/array/dtype.js";
import { errorCodes } from "../../src/base/error-codes.js";
import { limits } from "../../src/base/limits.js";
import { LINE_BYTES } from "../../src/base/timeline-line.js";
import {
  CHANNEL_VERSION,
  CLAIMS,
  control,
  flags,
  HEADERS_AT,
  header,
  PAGE_BYTES,
  POSITIONS_MAX,
  page,
  READY_LINES,
  readerModes,
  readerStates,
  whenFullPolicies,
  whenWriterGonePolicies,
  writerStates,
} from "../../src/ring/channel-layout.js";
import { ENVELOPE_BYTES, kinds } from "../../src/service/envelope.js";
import { PROTOCOL_VERSION } from "../../src/wire/messages.js";

export type Kind = "u32" | "u64" | "i64" | "f64";

export interface Field {
  readonly name: string;
  readonly at: number;
  readonly kind: Kind;
  readonly count?: number;
}

/** Words of a file, in order. `small` names those of 32 bits, `arrays` those that are several. */
function fieldsOf(
  layout: Readonly<Record<string, number>>,
  small: readonly string[],
  arrays: Readonly<Record<string, { readonly kind?: Kind; readonly count: number }>> = {},
): Field[] {
  return Object.entries(layout)
    .filter(([name]) => name !== "meta")
    .map(([name, at]) => {
      const kind: Kind = small.includes(name) ? "u32" : name === "timestampMs" ? "f64" : "u64";
      return { name, at, kind, ...arrays[name] };
    })
    .sort((one, other) => one.at - other.at);
}

const TIMELINE = { kind: "i64", count: 2 } as const;

export const controlFields = fieldsOf(
  control,
  "magic version slots readersMax metaBytesMax headersAt headerStride whenFull whenWriterGone state epoch asleep".split(
    " ",
  ),
  {
    magic: { count: 2 },
    expelled: { count: limits.channelReadersMax },
    ready: { kind: "i64", count: (READY_LINES * LINE_BYTES) / 8 },
  },
);
export const headerFields = fieldsOf(header, ["epoch", "flags", "metaBytes", "rank"], {
  shape: { count: 8 },
});
export const pageFields = fieldsOf(page, ["state", "mode", "asleep"], {
  claims: { kind: "i64", count: CLAIMS },
  done: TIMELINE,
});

const C_TYPES = { u32: "uint32_t", u64: "uint64_t", i64: "int64_t", f64: "double" } as const;
export const SIZES = { u32: 4, u64: 8, i64: 8, f64: 8 } as const;

const snake = (name: string) => name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

function struct(name: string, fields: readonly Field[], byteLength: number): string[] {
  const lines = [`struct ${name} {`];
  let at = 0;
  const pad = (to: number) => {
    if (to > at) lines.push(`  uint8_t unused_${at}[${to - at}];`);
    at = to;
  };
  for (const { name: field, at: offset, kind, count } of fields) {
    pad(offset);
    lines.push(`  ${C_TYPES[kind]} ${snake(field)}${count === undefined ? "" : `[${count}]`};`);
    at += SIZES[kind] * (count ?? 1);
  }
  pad(byteLength);
  lines.push("};");
  for (const field of fields) {
    const claim = `offsetof(struct ${name}, ${snake(field.name)}) == ${field.at}`;
    lines.push(`_Static_assert(${claim}, "${field.name}");`);
  }
  lines.push(`_Static_assert(sizeof(struct ${name}) == ${byteLength}, "${name}");`, "");
  return lines;
}

function enumeration(prefix: string, values: Readonly<Record<string, number>>): string[] {
  return Object.entries(values).map(([name, value]) => {
    const constant = `${prefix}_${snake(name).replaceAll("-", "_")}`.toUpperCase();
    return `#define ${constant} ${value}`;
  });
}

const numbered = (names: readonly string[]) =>
  Object.fromEntries(names.map((name, index) => [name, index]));

/** include/cuda_ipc_protocol.h */
export function headerText(): string {
  return [
    "/* The memory of timelines and channels as docs/protocol.md describes it. Generated.",
    " * Little-endian machines alone. Load and store the words of the handshake by",
    " * __atomic_load_n and __atomic_store_n with __ATOMIC_SEQ_CST. */",
    "#ifndef CUDA_IPC_PROTOCOL_H",
    "#define CUDA_IPC_PROTOCOL_H",
    "#include <stddef.h>",
    "#include <stdint.h>",
    "",
    `#define CUDA_IPC_PROTOCOL_VERSION ${PROTOCOL_VERSION}`,
    `#define CUDA_IPC_CHANNEL_VERSION ${CHANNEL_VERSION}`,
    `#define CUDA_IPC_MESSAGE_BYTES_MAX ${limits.messageBytesMax}`,
    `#define CUDA_IPC_JSON_LEVELS_MAX ${limits.jsonLevelsMax}`,
    `#define CUDA_IPC_SOCKET_PATH_BYTES_MAX ${limits.socketPathBytesMax}`,
    `#define CUDA_IPC_NAME_BYTES_MAX ${limits.nameBytesMax}`,
    `#define CUDA_IPC_DIMENSIONS_MAX ${limits.dimensionsMax}`,
    `#define CUDA_IPC_SLOTS_MAX ${limits.channelSlotsMax}`,
    `#define CUDA_IPC_READERS_MAX ${limits.channelReadersMax}`,
    `#define CUDA_IPC_LOOKS_MAX ${limits.channelLooksMax}`,
    `#define CUDA_IPC_META_BYTES_MAX ${limits.channelMetaBytesMax}`,
    `#define CUDA_IPC_BUNDLE_ARRAYS_MAX ${limits.bundleArraysMax}`,
    `#define CUDA_IPC_INDEX_BYTES_MAX ${limits.bundleIndexBytesMax}`,
    `#define CUDA_IPC_TIMELINE_BYTES_MAX ${limits.timelineMemoryBytesMax}`,
    `#define CUDA_IPC_CONTROL_BYTES_MAX ${limits.channelControlBytesMax}`,
    `#define CUDA_IPC_FDS_MAX ${limits.scmRightsFdsMax}`,
    "#define CUDA_IPC_POISON INT64_MAX",
    `#define CUDA_IPC_LINE_BYTES ${LINE_BYTES}`,
    `#define CUDA_IPC_PAGE_BYTES ${PAGE_BYTES}`,
    `#define CUDA_IPC_HEADERS_AT ${HEADERS_AT}`,
    `#define CUDA_IPC_READY_LINES ${READY_LINES}`,
    `#define CUDA_IPC_CLAIMS ${CLAIMS}`,
    `#define CUDA_IPC_POSITIONS_MAX ${POSITIONS_MAX}`,
    ...enumeration("CUDA_IPC_WRITER", writerStates),
    ...enumeration("CUDA_IPC_READER", readerStates),
    ...enumeration("CUDA_IPC_MODE", readerModes),
    ...enumeration("CUDA_IPC_FLAG", flags),
    ...enumeration("CUDA_IPC_WHEN_FULL", numbered(whenFullPolicies)),
    ...enumeration("CUDA_IPC_WHEN_WRITER_GONE", numbered(whenWriterGonePolicies)),
    `#define CUDA_IPC_ENVELOPE_BYTES ${ENVELOPE_BYTES}`,
    ...enumeration("CUDA_IPC_KIND", kinds),
    "",
    "/* Of errors: docs/reference.md. */",
    "#define CUDA_IPC_ERROR_CODES \\",
    ...Object.keys(errorCodes).map((code, index, { length }) => {
      return `  "${code}"${index < length - 1 ? ", \\" : ""}`;
    }),
    "",
    "/* Name, bytes of an element, alignment of an offset. */",
    "#define CUDA_IPC_DTYPES(use) \\",
    ...dtypeNames.map((name, index) => {
      const { byteSize, alignment } = dtypes[name];
      const more = index < dtypeNames.length - 1 ? " \\" : "";
      return `  use(${name}, ${byteSize}, ${alignment})${more}`;
    }),
    "",
    ...struct(
      "cuda_ipc_line",
      [
        { name: "value", at: 0, kind: "i64" },
        { name: "final", at: 8, kind: "i64" },
        { name: "awaited", at: 16, kind: "i64" },
      ],
      LINE_BYTES,
    ),
    ...struct("cuda_ipc_control", controlFields, HEADERS_AT),
    ...struct("cuda_ipc_header", headerFields, header.meta),
    ...struct("cuda_ipc_page", pageFields, PAGE_BYTES),
    "#endif",
    "",
  ].join("\n");
}
