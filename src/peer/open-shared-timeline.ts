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
import { ownIdentity } from "../os/process-identity.js";
import { ProcessWatch } from "../os/process-watch.js";
import type { SharedDocumentOf } from "../wire/shared-document.js";
import { fetchWithExporter } from "./fetch-fds.js";
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
  const { fds, exporter } = await fetchWithExporter(parsed, deadline);
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
    if (exporter === undefined) throw absentOwner(parsed);
    const label = options.label ?? `timeline of process ${parsed.exporter.pid}`;
    return watched(device, parsed, { writable, owner: exporter }, label);
  } finally {
    closeFds(exporter === undefined ? fds : [...fds, exporter]);
  }
}

function absentOwner({ exporter: { pid, pidNamespace } }: SharedDocumentOf<"timeline">): CudaIpcError {
  const attempt = `Cannot open a shared timeline: process ${pid}, its owner,`;
  if (pidNamespace === ownIdentity().pidNamespace) return new CudaIpcError("PEER_GONE", `${attempt} has ended`);
  const found = "is of another PID namespace and cannot be watched from here, or has ended";
  return new CudaIpcError("UNSUPPORTED", `${attempt} ${found}. Linux 6.5 or newer can watch it.`);
}

/** The timeline, and a watch over its owner for as long as it is open. The descriptors stay the caller's. */
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
