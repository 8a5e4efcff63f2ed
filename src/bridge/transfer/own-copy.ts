/** Which objects of this machine's hub are copies that a bridge of this user made. */
import { CudaIpcError } from "../../base/errors.js";
import type { ReplicaOf } from "../../wire/descriptor.js";
import type { NameRecord } from "../../wire/machine-records.js";
import type { ObjectSummary } from "../../wire/messages.js";

/**
 * The original, if the object is a copy. WHY only of the bridge's user: the owner of an object
 * wrote its descriptor, and so can claim this of anything. The hub says who the owner is.
 */
export function originalOf(
  { ownerUid, descriptor }: ObjectSummary,
  uid: number,
): ReplicaOf | undefined {
  return ownerUid === uid ? descriptor.replicaOf : undefined;
}

export function isCopyOf(
  replica: { readonly machine: string; readonly object: number },
  { machine, object }: NameRecord,
): boolean {
  return replica.machine === machine && replica.object === object;
}

/** @throws NAME_TAKEN if the object claims to be a copy, but belongs to another user */
export function checkIsNoFalseCopy(object: ObjectSummary, uid: number): void {
  const { name, ownerUid, descriptor } = object;
  const { replicaOf, content } = descriptor;
  if (replicaOf === undefined || ownerUid === uid) return;
  throw new CudaIpcError(
    "NAME_TAKEN",
    `Cannot fetch "${name}": the ${content.kind} of user ${ownerUid} has this name on this ` +
      `machine. It claims to be a copy from machine "${replicaOf.machine}", but this bridge ` +
      `trusts only copies of its own user ${uid}`,
  );
}
