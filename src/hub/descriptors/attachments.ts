/** The descriptors of a request: how many there must be, and which are kept. */
import { CudaIpcError } from "../../base/errors.js";
import { fdsOf } from "../../wire/descriptor.js";
import type { Request } from "../../wire/messages.js";

/** The descriptors of a request. Those that are not kept are closed after the request. */
export class Attachments<Fd> {
  readonly fds: readonly Fd[];
  readonly kept = new Set<Fd>();

  constructor(fds: readonly Fd[]) {
    this.fds = fds;
  }

  keep(): readonly [Fd, ...Fd[]] {
    for (const fd of this.fds) this.kept.add(fd);
    return this.fds as [Fd, ...Fd[]];
  }
}

/** @throws INVALID_MESSAGE */
export function checkFdCount(request: Request, found: number): void {
  // Not for restore: the wanted number depends on the object, which is looked up later.
  const wanted =
    request.op === "create" ? fdsOf(request.descriptor) : request.op === "restore" ? found : 0;
  if (found === wanted) return;
  throw new CudaIpcError(
    "INVALID_MESSAGE",
    `Cannot take "${request.op}": ${found} descriptors came with it, wanted ${wanted}`,
  );
}
