/**
 * Opens a timeline that another process shares without a hub. With no hub to do it, whoever opens it watches its owner, and ends the
 * timeline when the owner dies: streams of GPUs are released by the first who notices.
 */
import { Deadline, type WaitOptions } from "../base/deadline.js";
import { CudaIpcError } from "../base/errors.js";
import { defaults } from "../base/limits.js";
import { acquireIn, Scope } from "../base/scope.js";
import { endTimelineOfDead } from "../gpu/dead-timeline.js";
import type { Device } from "../gpu/device.js";
import type { ImportedTimeline } from "../gpu/timeline.js";
import { inspectMemoryFile, reopenReadOnly } from "../os/memory-file.js";
import type { OwnedFd } from "../os/owned-fd.js";
import { openProcess } from "../os/process-identity.js";
import { ProcessWatch } from "../os/process-watch.js";
import type { SharedDocumentOf } from "../wire/shared-document.js";
import { fetchFds } from "./fetch-fds.js";
import { parseKind } from "./open-shared.js";
import { closeFds } from "./peer-link.js";

export interface OpenSharedTimelineOptions extends WaitOptions {
  /** The name in error messages. */
  readonly label?: string | undefined;
}

/**
 * @param device keeps the timeline with its others; streams of every device of this process can wait for it
 * @throws INVALID_DESCRIPTOR, WRONG_KIND, PEER_GONE, STALE_HANDLE, UNTRUSTED_PEER, TIMEOUT, ABORTED
 */
export async function openSharedTimeline(
  device: Device,
  document: unknown,
  options: OpenSharedTimelineOptions = {},
): Promise<ImportedTimeline> {
  const deadline = new Deadline("open a shared timeline", options, defaults.peerTimeoutMs);
  const parsed = parseKind(document, ["timeline"]);
  const fds = await fetchFds(parsed, deadline);
  try {
    const [writable] = fds;
    if (writable === undefined || fds.length !== 1) {
      throw new CudaIpcError(
        "INVALID_DESCRIPTOR",
        `Cannot open a shared timeline: ${fds.length} file descriptors came, wanted 1`,
      );
    }
    // WHY before it is reopened: to open a FIFO or a file of FUSE anew can wait for ever.
    const { flaw } = inspectMemoryFile(writable);
    if (flaw !== undefined) throw new CudaIpcError("INVALID_DESCRIPTOR", `Cannot open a shared timeline: ${flaw}`);
    return watched(device, parsed, writable, options.label ?? `timeline of process ${parsed.exporter.pid}`);
  } finally {
    closeFds(fds);
  }
}

/** The timeline, and a watch over its owner for as long as it is open. */
function watched(
  device: Device,
  { exporter, byteOffset }: SharedDocumentOf<"timeline">,
  writable: OwnedFd,
  label: string,
): ImportedTimeline {
  return acquireIn((scope) => {
    const kept = scope.own(writable.duplicate(), (fd) => fd.close());
    const pidfd = openProcess(exporter);
    if (pidfd === undefined) {
      throw new CudaIpcError(
        "PEER_GONE",
        `Cannot open a shared timeline: process ${exporter.pid}, its owner, has ended`,
      );
    }
    scope.own(pidfd, (fd) => fd.close());
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
