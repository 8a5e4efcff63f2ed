/** Checks that descriptors that outlived a hub are the memory that its journal speaks of. */
import { CudaIpcError } from "../base/errors.js";
import { isBell } from "../os/bell.js";
import { isDeviceMemory } from "../os/foreign-fd.js";
import { inspectMemoryFile } from "../os/memory-file.js";
import type { OwnedFd } from "../os/owned-fd.js";
import { fdsOf } from "../wire/descriptor.js";
import { checkMemory, checkSameMemory } from "./check-descriptor.js";
import type { ObjectRecord } from "./hub-records.js";
import type { ObjectMemory } from "./shared-object.js";

/** @throws INVALID_DESCRIPTOR if they are another object's, or not all */
export function matchingMemory(attempt: string, record: ObjectRecord, fds: readonly OwnedFd[]): ObjectMemory<OwnedFd> {
  const [first, ...rest] = fds;
  const wanted = fdsOf(record.descriptor);
  if (first === undefined || fds.length !== wanted) {
    const found = `${fds.length} descriptors came, wanted ${wanted}`;
    throw new CudaIpcError("INVALID_DESCRIPTOR", `Cannot ${attempt}: ${found}`);
  }
  const found = checkMemory(attempt, record.descriptor, fds, { inspectMemoryFile, isDeviceMemory, isBell });
  checkSameMemory(attempt, record, found);
  return { fds: [first, ...rest], writable: found.writable };
}
