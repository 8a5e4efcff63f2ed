/**
 * What bridges write to NATS, each as one JSON document under one key. `machine.NAME` says that a
 * machine is there, and ends by itself. `name.NAME` says which machine has an object.
 * `service.NAME.MACHINE` says that a machine has workers of a service.
 */
import * as v from "valibot";
import { CudaIpcError, messageOf } from "../base/errors.js";
import { descriptorContradiction, descriptorSchema } from "./descriptor.js";
import { MACHINES_VERSION, otherVersionOf, VersionMismatch } from "./machines-version.js";
import { isValidName } from "./names.js";
import { count, positive } from "./schemas.js";

const version = { v: v.literal(MACHINES_VERSION) };
const goodName = v.pipe(v.string(), v.check(isValidName, "not a valid name"));
const word = v.pipe(v.string(), v.maxLength(512));

const machineRecord = v.strictObject({
  ...version,
  machine: goodName,
  /** Of this run of the bridge. The next bridge of the machine has another. */
  instance: v.pipe(v.string(), v.uuid()),
  /** The boot and the hub's socket. A bridge that serves the same hub may take over at once. */
  place: word,
  ucx: word,
  /** False until all names of this bridge are announced. */
  ready: v.boolean(),
});

export type MachineRecord = v.InferOutput<typeof machineRecord>;

const nameRecord = v.strictObject({
  ...version,
  name: goodName,
  machine: goodName,
  /** The object's number on the hub there. A later object of the same name has another. */
  object: positive,
  sharedWith: v.picklist(["private", "group", "all"]),
  createdAtMs: count,
  descriptor: descriptorSchema,
});

export type NameRecord = v.InferOutput<typeof nameRecord>;

const serviceRecord = v.strictObject({ ...version, service: goodName, machine: goodName });

export type ServiceRecord = v.InferOutput<typeof serviceRecord>;

/** Any character of a name but these would mean something to NATS. */
const PLAIN = /[A-Za-z0-9_-]/;

/** The last part of a key. A name may have dots and colons; `=` is in no name. */
function keyPart(name: string): string {
  return [...name]
    .map((it) => (PLAIN.test(it) ? it : `=${it.charCodeAt(0).toString(16).padStart(2, "0")}`))
    .join("");
}

export function machineKey(machine: string): string {
  return `machine.${keyPart(machine)}`;
}

export function nameKey(name: string): string {
  return `name.${keyPart(name)}`;
}

export function serviceKey(service: string, machine: string): string {
  return `${servicePrefix(service)}${keyPart(machine)}`;
}

/** With it the keys of a service begin. */
export function servicePrefix(service: string): string {
  return `service.${keyPart(service)}.`;
}

export function encodeRecord(record: MachineRecord | NameRecord | ServiceRecord): Uint8Array {
  return new TextEncoder().encode(JSON.stringify(record));
}

/** @throws INVALID_MESSAGE, PROTOCOL_MISMATCH, INVALID_DESCRIPTOR */
export function decodeMachine(key: string, bytes: Uint8Array): MachineRecord {
  const record = decode(key, machineRecord, bytes);
  if (machineKey(record.machine) !== key) throw damaged(key, `it is of ${record.machine}`);
  return record;
}

/** @throws INVALID_MESSAGE, PROTOCOL_MISMATCH, INVALID_DESCRIPTOR */
export function decodeName(key: string, bytes: Uint8Array): NameRecord {
  const record = decode(key, nameRecord, bytes);
  if (nameKey(record.name) !== key) throw damaged(key, `it is of ${record.name}`);
  const contradiction = descriptorContradiction(record.descriptor);
  if (contradiction !== undefined)
    throw new CudaIpcError(
      "INVALID_DESCRIPTOR",
      `Cannot use "${record.name}" of ${record.machine}: it claims ${contradiction}`,
    );
  return record;
}

/** @throws INVALID_MESSAGE, PROTOCOL_MISMATCH */
export function decodeService(key: string, bytes: Uint8Array): ServiceRecord {
  const record = decode(key, serviceRecord, bytes);
  if (serviceKey(record.service, record.machine) !== key)
    throw damaged(key, `it is of ${record.service} on ${record.machine}`);
  return record;
}

function decode<Schema extends v.GenericSchema>(
  key: string,
  schema: Schema,
  bytes: Uint8Array,
): v.InferOutput<Schema> {
  let value: unknown;
  try {
    value = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch (cause) {
    throw damaged(key, messageOf(cause));
  }
  const other = otherVersionOf(value);
  if (other !== undefined) throw new VersionMismatch(`read ${key} in NATS`, other);
  const result = v.safeParse(schema, value, { abortEarly: true });
  if (result.success) return result.output;
  const [issue] = result.issues;
  throw damaged(key, `${v.getDotPath(issue) ?? "the record"}: expected ${issue.expected}`);
}

function damaged(key: string, found: string): CudaIpcError {
  return new CudaIpcError("INVALID_MESSAGE", `Cannot read ${key} in NATS: ${found}`);
}
