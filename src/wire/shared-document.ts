/**
 * The document of something that a process shares without a hub: JSON that travels in a message, a file or an environment
 * variable. It says who shares what and where the file descriptors are to be had; those cannot travel in JSON.
 */
import * as v from "valibot";
import { CudaIpcError } from "../base/errors.js";
import { limits } from "../base/limits.js";
import { checked } from "./codec.js";
import { descriptorContradiction, descriptorSchema } from "./descriptor.js";
import { growingDescriptorSchema } from "./growing-descriptor.js";
import { arrayHandleSchema, eventSchema, exporterSchema } from "./ipc-documents.js";
import { count } from "./numbers.js";

export const SHARED_DOCUMENT_VERSION = 1;

/** Where the exporter hands out the file descriptors, and by which token: whoever has it may have them. */
const fds = v.strictObject({
  socket: v.pipe(
    v.string(),
    v.maxLength(limits.socketPathBytesMax),
    v.check((path) => path.startsWith("/") && !path.includes("\0"), "not an absolute path"),
  ),
  token: v.pipe(v.string(), v.regex(/^[0-9a-f]{32}$/)),
});

const head = { format: v.literal("cuda-ipc"), version: v.literal(SHARED_DOCUMENT_VERSION), exporter: exporterSchema };

/** Memory that is mapped by its file descriptor. */
const mappable = {
  ...head,
  /** The most that the exporter grants. */
  access: v.picklist(["read", "read-write"]),
  descriptor: descriptorSchema,
  fds,
};

/** One entry a kind of thing; a new kind is one more entry. */
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
  /** Memory that grows; the descriptors that are fetched are of the pieces, and later ones are asked for by their number. */
  v.strictObject({ ...head, kind: v.literal("growing"), descriptor: growingDescriptorSchema, fds }),
  arrayHandleSchema,
  eventSchema,
]);

export type SharedDocument = v.InferOutput<typeof sharedDocumentSchema>;
export type SharedKind = SharedDocument["kind"];
export type SharedDocumentOf<Kind extends SharedKind> = Extract<SharedDocument, { kind: Kind }>;
/** The kinds that are memory with a file descriptor. */
export type SharedMemoryDocument = SharedDocumentOf<"array" | "buffer">;

/**
 * Checks what came from elsewhere, form and contradictions.
 * @param what what is read, for the message: `the document in /tmp/frame.json`
 * @throws INVALID_DESCRIPTOR
 */
export function parseSharedDocument(what: string, value: unknown): SharedDocument {
  const document = checked(what, sharedDocumentSchema, value, "INVALID_DESCRIPTOR");
  const contradiction = contradictionOf(document);
  if (contradiction === undefined) return document;
  throw new CudaIpcError("INVALID_DESCRIPTOR", `Cannot read ${what}: the descriptor claims ${contradiction}`);
}

function contradictionOf(document: SharedDocument): string | undefined {
  if (document.kind !== "array" && document.kind !== "buffer") return undefined;
  return descriptorContradiction(document.descriptor) ?? kindContradiction(document);
}

/** A bundle's index is a second descriptor, which these kinds have not. */
function kindContradiction({ kind, descriptor: { content } }: SharedMemoryDocument): string | undefined {
  if (content.kind !== "array") return `a ${content.kind} in a document of kind ${kind}`;
  return undefined;
}
