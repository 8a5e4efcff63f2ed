/** Validates the hub's reply to `openChannel`: object kind, role and file descriptors. */
import { CudaIpcError } from "../../base/errors.js";
import { isBell } from "../../os/bell.js";
import { inspectMemoryFile } from "../../os/memory-file.js";
import type { OwnedFd } from "../../os/owned-fd.js";
import { channelFdsAt, readerFdsAt } from "../../ring/channel-fds.js";
import { controlByteLength, PAGE_BYTES } from "../../ring/channel-layout.js";
import { type ChannelContent, type ChannelRole, channelFds } from "../../wire/channel-content.js";
import { type Descriptor, descriptorContradiction } from "../../wire/descriptor.js";
import type { OpenedObject } from "./hub-objects.js";
import type { HandleFacts } from "./shared-object.js";

export interface OpenedChannel extends HandleFacts {
  readonly role: ChannelRole;
  /** A reader's seat. */
  readonly seat: number | undefined;
  readonly descriptor: Descriptor;
  readonly content: ChannelContent;
  /** In the order of wire/channel-content for the role. */
  readonly fds: readonly OwnedFd[];
}

/** @throws INVALID_MESSAGE */
export function checkNoSeat({ name, place }: OpenedObject): void {
  if (place === undefined) return;
  const found = `the hub gave a reader's seat (${place})`;
  throw new CudaIpcError("INVALID_MESSAGE", `Cannot open "${name}": ${found}`);
}

type Kind = "data" | "control" | "page" | "bell";

/** @throws INVALID_DESCRIPTOR, INVALID_MESSAGE, WRONG_KIND */
export function openedChannel(opened: OpenedObject, role: ChannelRole): OpenedChannel {
  const { name, object, lease, descriptor, place: seat, fds } = opened;
  const { content } = descriptor;
  const refuse = (found: string) =>
    new CudaIpcError("INVALID_DESCRIPTOR", `Cannot open "${name}": ${found}`);
  if (content.kind !== "channel") {
    const found = `it is of kind ${content.kind}`;
    throw new CudaIpcError("WRONG_KIND", `Cannot open "${name}" as a channel: ${found}`);
  }
  const contradiction = descriptorContradiction(descriptor);
  if (contradiction !== undefined) throw refuse(`the descriptor claims ${contradiction}`);
  if (role !== "reader") checkNoSeat(opened);
  else if (seat === undefined || seat >= content.readersMax) {
    const found = `the hub gave seat ${seat ?? "none"} of ${content.readersMax} to a reader`;
    throw new CudaIpcError("INVALID_MESSAGE", `Cannot open "${name}": ${found}`);
  }
  const wanted = channelFds(content, role);
  if (fds.length !== wanted)
    throw refuse(`${fds.length} file descriptors came with it, wanted ${wanted}`);
  for (const [index, fd] of fds.entries()) {
    const found = unfit(kindAt(role, index), fd, content);
    if (found !== undefined) throw refuse(`file descriptor ${index} ${found}`);
  }
  return { name, object, lease, role, seat, descriptor, content, fds };
}

function kindAt(role: ChannelRole, index: number): Kind {
  if (role === "observer") return index === 0 ? "control" : "page";
  if (index === channelFdsAt.data) return "data";
  if (index === channelFdsAt.control) return "control";
  const isPage =
    role === "reader"
      ? index === readerFdsAt.page
      : index >= channelFdsAt.page(0) && index % 2 === 1;
  return isPage ? "page" : "bell";
}

/** Says why a descriptor cannot be used. Undefined if it can. The mapper checks the data. */
function unfit(kind: Kind, fd: OwnedFd, content: ChannelContent): string | undefined {
  if (kind === "data") return undefined;
  if (kind === "bell") return isBell(fd) ? undefined : "is no bell (eventfd)";
  const wanted = kind === "page" ? PAGE_BYTES : controlByteLength(content);
  const { byteLength, sizeSealed, flaw } = inspectMemoryFile(fd);
  if (flaw !== undefined) return `cannot be its ${kind}: ${flaw}`;
  // Without the seal, another process could shrink the file under the mapping. An access would then
  // end this process.
  if (byteLength === wanted && sizeSealed) return undefined;
  const found = `a ${kind === "page" ? "page" : "control file"} of ${byteLength} bytes`;
  return `is ${found}${sizeSealed ? "" : ", not sealed"}, wanted ${wanted}`;
}
