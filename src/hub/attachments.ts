/** The descriptors that came with a request: how many there must be, and which of them are kept. */
import { CudaIpcError } from "../base/errors.js";
import { fdsOf } from "../wire/descriptor.js";
import type { Request } from "../wire/messages.js";

/** Descriptors that came with a request. What is not kept is closed when the request has been handled. */
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
  // WHY not restore: how many depends on the object, which is looked up first.
  const wanted = request.op === "create" ? fdsOf(request.descriptor) : request.op === "restore" ? found : 0;
  if (found === wanted) return;
  throw new CudaIpcError(
    "INVALID_MESSAGE",
    `Cannot take "${request.op}": ${found} descriptors came with it, wanted ${wanted}`,
  );
}
