/**
 * Opens a timeline that another process shares without a hub. No hub ends it if its owner dies, so
 * each process that opened it watches the owner. The first to notice the death ends the timeline.
 */
import type { Deadline } from "../base/deadline.js";
import { CudaIpcError } from "../base/errors.js";
import { acquireIn, Scope } from "../base/scope.js";
import type { Device } from "../gpu/device.js";
import { endTimelineOfDead } from "../gpu/order/dead-timeline.js";
import type { ImportedTimeline } from "../gpu/order/timeline.js";
import { closeFds } from "../os/foreign-fd.js";
import { inspectMemoryFile, reopenReadOnly } from "../os/memory-file.js";
import type { OwnedFd } from "../os/owned-fd.js";
import { ownIdentity } from "../os/process-identity.js";
import { ProcessWatch } from "../os/process-watch.js";
import type { SharedDocumentOf } from "../wire/shared-document.js";
import { fetchWithExporter } from "./fetch-fds.js";

/**
 * Opens the timeline and watches its owner.
 * @param device owns the timeline. Streams of every device of this process can wait for it.
 */
export async function openTimeline(
  device: Device,
  parsed: SharedDocumentOf<"timeline">,
  label: string | undefined,
  deadline: Deadline,
): Promise<ImportedTimeline> {
  const { fds, exporter } = await fetchWithExporter(parsed, deadline);
  try {
    const [writable] = fds;
    if (writable === undefined || fds.length !== 1) {
      throw new CudaIpcError(
        "INVALID_DESCRIPTOR",
        `Cannot open a shared timeline: ${fds.length} file descriptors came, wanted 1`,
      );
    }
    // Reopening a FIFO or a FUSE file can block for ever, so the file is checked first.
    const { flaw } = inspectMemoryFile(writable);
    if (flaw !== undefined)
      throw new CudaIpcError("INVALID_DESCRIPTOR", `Cannot open a shared timeline: ${flaw}`);
    if (exporter === undefined) throw absentOwner(parsed);
    const name = label ?? `timeline of process ${parsed.exporter.pid}`;
    return watched(device, parsed, { writable, owner: exporter }, name);
  } finally {
    closeFds(exporter === undefined ? fds : [...fds, exporter]);
  }
}

function absentOwner({
  exporter: { pid, pidNamespace },
}: SharedDocumentOf<"timeline">): CudaIpcError {
  const attempt = `Cannot open a shared timeline: process ${pid}, its owner,`;
  if (pidNamespace === ownIdentity().pidNamespace)
    return new CudaIpcError("PEER_GONE", `${attempt} has ended`);
  const found = "has ended, or is in another PID namespace and cannot be watched from here";
  return new CudaIpcError("UNSUPPORTED", `${attempt} ${found}. Linux 6.5 or newer can watch it.`);
}

/** Imports the timeline and watches its owner while it is open. The caller keeps the fds. */
function watched(
  device: Device,
  { byteOffset }: SharedDocumentOf<"timeline">,
  { writable, owner }: { readonly writable: OwnedFd; readonly owner: OwnedFd },
  label: string,
): ImportedTimeline {
  return acquireIn((scope) => {
    const kept = scope.own(writable.duplicate(), (fd) => fd.close());
    const pidfd = scope.own(owner.duplicate(), (fd) => fd.close());
    const onExit = () => endTimelineOfDead(kept, { byteOffset });
    const watch = scope.own(new ProcessWatch(pidfd, onExit), (watch) => watch.close());
    using readable = reopenReadOnly(writable);
    const onClose = () => {
      const releases = new Scope();
      releases.own(kept, (fd) => fd.close());
      releases.own(watch, (watch) => watch.close());
      releases.close();
    };
    return device.importTimeline(readable, { byteOffset }, { label, onClose });
  });
}
