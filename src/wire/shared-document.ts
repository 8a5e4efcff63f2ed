/**
 * The document of an object that a process shares without a hub: JSON that travels in a message, a
 * file or an environment variable. It says who shares what, and where to fetch the file
 * descriptors.
 */
import * as v from "valibot";
import { CudaIpcError } from "../base/errors.js";
import { limits } from "../base/limits.js";
import { checked } from "./codec.js";
import { descriptorContradiction, descriptorSchema } from "./descriptor.js";
import { growingDescriptorSchema } from "./growing-descriptor.js";
import {
  arrayHandleSchema,
  eventSchema,
  exporterSchema,
  rawHandleSchema,
} from "./ipc-documents.js";
import { count } from "./schemas.js";

export const SHARED_DOCUMENT_VERSION = 1;

/** Where to fetch the file descriptors, and the token that gives the right to them. */
const fds = v.strictObject({
  socket: v.pipe(
    v.string(),
    v.maxLength(limits.socketPathBytesMax),
    v.check((path) => path.startsWith("/") && !path.includes("\0"), "not an absolute path"),
  ),
  token: v.pipe(v.string(), v.regex(/^[0-9a-f]{32}$/)),
});

const head = {
  format: v.literal("cuda-ipc"),
  version: v.literal(SHARED_DOCUMENT_VERSION),
  exporter: exporterSchema,
};

/** Memory that is mapped by its file descriptor. */
const mappable = {
  ...head,
  /** The most that the exporter grants. */
  access: v.picklist(["read", "read-write"]),
  descriptor: descriptorSchema,
  fds,
};

/** One entry for each kind of object. */
export const sharedDocumentSchema = v.variant("kind", [
  v.strictObject({ ...mappable, kind: v.literal("array") }),
  v.strictObject({ ...mappable, kind: v.literal("buffer") }),
  /** A timeline at this byte of its exporter's memory; see timeline-line.ts. */
  v.strictObject({
    ...head,
    kind: v.literal("timeline"),
    byteOffset: count,
    fds,
  }),
  /**
   * Growing memory. The first fetch brings the pieces' descriptors; later pieces are fetched by
   * number.
   */
  v.strictObject({ ...head, kind: v.literal("growing"), descriptor: growingDescriptorSchema, fds }),
  arrayHandleSchema,
  rawHandleSchema,
  eventSchema,
]);

export type SharedDocument = v.InferOutput<typeof sharedDocumentSchema>;
export type SharedKind = SharedDocument["kind"];
export type SharedDocumentOf<Kind extends SharedKind> = Extract<SharedDocument, { kind: Kind }>;
/** Kinds that are memory with a file descriptor. */
export type SharedMemoryDocument = SharedDocumentOf<"array" | "buffer">;

/**
 * Checks a document from elsewhere: its form and its contradictions.
 * @param what the source, for the message: `the document in /tmp/frame.json`
 * @throws INVALID_DESCRIPTOR
 */
export function parseSharedDocument(what: string, value: unknown): SharedDocument {
  const document = checked(what, sharedDocumentSchema, value, "INVALID_DESCRIPTOR");
  const contradiction = contradictionOf(document);
  if (contradiction === undefined) return document;
  throw new CudaIpcError(
    "INVALID_DESCRIPTOR",
    `Cannot read ${what}: the descriptor claims ${contradiction}`,
  );
}

function contradictionOf(document: SharedDocument): string | undefined {
  if (document.kind !== "array" && document.kind !== "buffer") return undefined;
  return descriptorContradiction(document.descriptor) ?? kindContradiction(document);
}

/** These kinds have one descriptor, and the index of a bundle would be a second one. */
function kindContradiction({
  kind,
  descriptor: { content },
}: SharedMemoryDocument): string | undefined {
  if (content.kind !== "array") return `a ${content.kind} in a document of kind ${kind}`;
  return undefined;
}
