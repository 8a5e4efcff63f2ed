/** Checks that kept descriptors are the memory of the objects in the journal, and reopens them. */
import { CudaIpcError } from "../../base/errors.js";
import type { Log } from "../../base/log-events.js";
import { releaseAll } from "../../base/scope.js";
import { isBell } from "../../os/bell.js";
import { isDeviceMemory } from "../../os/foreign-fd.js";
import { inspectMemoryFile, reopenWritable } from "../../os/memory-file.js";
import type { OwnedFd } from "../../os/owned-fd.js";
import { fdsOf } from "../../wire/descriptor.js";
import { checkMemory, checkSameMemory } from "../descriptors/check-descriptor.js";
import { codeOf, describeError } from "../hub-log.js";
import type { ObjectMemory } from "../objects/shared-object.js";
import type { HubState, ObjectRecord } from "./hub-records.js";

/**
 * The memory of these objects, owned by the caller. Closes descriptors that belong to none of them
 * or do not match, and logs why they do not match.
 * @param kept descriptors by object and index; a missing index leaves a hole
 */
export function keptMemory(
  kept: ReadonlyMap<number, readonly (OwnedFd | undefined)[]>,
  objects: HubState["objects"],
  log: Log,
): Map<number, ObjectMemory<OwnedFd>> {
  const found = new Map<number, ObjectMemory<OwnedFd>>();
  for (const [object, fds] of kept) {
    const record = objects.get(object)?.record;
    const memory = record === undefined ? undefined : tryMatch(record, fds, log);
    if (memory !== undefined) found.set(object, memory);
    else releaseAll(fds.filter(isPresent).map((fd) => () => fd.close()));
  }
  return found;
}

function tryMatch(
  record: ObjectRecord,
  fds: readonly (OwnedFd | undefined)[],
  log: Log,
): ObjectMemory<OwnedFd> | undefined {
  try {
    if (!fds.every(isPresent)) throw new RangeError("one of its descriptors is missing");
    const memory = match(`take back "${record.name}"`, record, fds);
    if (!record.writable || memory.writable) return memory;
    const [first, ...rest] = memory.fds;
    const twin = reopenWritable(first);
    if (twin === undefined) return memory;
    first.close();
    return { fds: [twin, ...rest], writable: true };
  } catch (error) {
    const { id: object, name } = record;
    const message = `the memory of "${name}" that was kept is not used: ${describeError(error)}`;
    log("object-not-kept", message, { object, name, ...codeOf(error) });
    return undefined;
  }
}

/** @throws INVALID_DESCRIPTOR if they belong to another object, or some are missing */
function match(
  attempt: string,
  record: ObjectRecord,
  fds: readonly OwnedFd[],
): ObjectMemory<OwnedFd> {
  const [first, ...rest] = fds;
  const wanted = fdsOf(record.descriptor);
  if (first === undefined || fds.length !== wanted) {
    const found = `${fds.length} descriptors came, wanted ${wanted}`;
    throw new CudaIpcError("INVALID_DESCRIPTOR", `Cannot ${attempt}: ${found}`);
  }
  const found = checkMemory(attempt, record.descriptor, fds, {
    inspectMemoryFile,
    isDeviceMemory,
    isBell,
  });
  checkSameMemory(attempt, record, found);
  return { fds: [first, ...rest], writable: found.writable };
}

function isPresent(fd: OwnedFd | undefined): fd is OwnedFd {
  return fd !== undefined;
}
