/**
 * The version of all that bridges tell each other: records in NATS, the agreement on a link, and
 * its frames. Bridges of different versions exchange nothing. Whatever the version, a record has
 * the fields `v` and `machine`, so each bridge can say whose version differs.
 */
import * as v from "valibot";
import { CudaIpcError } from "../base/errors.js";

/** Raise it with every change of a record, a call or a frame. */
export const MACHINES_VERSION = 3;

const versioned = v.looseObject({
  v: v.pipe(v.number(), v.safeInteger(), v.minValue(1)),
  machine: v.optional(v.pipe(v.string(), v.maxLength(255))),
  place: v.optional(v.pipe(v.string(), v.maxLength(512))),
});

/** A record or message of another version, with the fields that all versions have. */
export interface OtherVersion {
  readonly version: number;
  readonly machine: string | undefined;
  /** See `MachineRecord`. */
  readonly place: string | undefined;
}

/** Returns undefined if a message is of this version, or has none. */
export function otherVersionOf(message: unknown): OtherVersion | undefined {
  const found = v.safeParse(versioned, message);
  if (!found.success || found.output.v === MACHINES_VERSION) return undefined;
  const { v: version, machine, place } = found.output;
  return { version, machine, place };
}

/** The bridge of another version is the other side, or has written a record. */
export class VersionMismatch extends CudaIpcError {
  readonly other: OtherVersion;

  /** @param attempt as in `Cannot use "weights"` */
  constructor(attempt: string, other: OtherVersion) {
    const { version, machine } = other;
    const name = machine === undefined ? "the other machine" : `machine "${machine}"`;
    const [relation, upgraded] =
      version < MACHINES_VERSION ? ["older", name] : ["newer", "this machine"];
    const found = `the bridge of ${name} speaks version ${version}`;
    const message = `Cannot ${attempt}: ${found}, ${relation} than ${MACHINES_VERSION} of this one`;
    const remedy = `Upgrade cuda-ipc on ${upgraded}, then start its bridge again.`;
    super("PROTOCOL_MISMATCH", message, { remedy });
    this.other = other;
  }
}
