/**
 * Checks the files and bells of a channel: its clients map the files, and the hub writes into them.
 */
import { CudaIpcError } from "../../base/errors.js";
import { channelFdsAt, readerFdsAt } from "../../ring/channel-fds.js";
import { controlByteLength, PAGE_BYTES } from "../../ring/channel-layout.js";
import { type ChannelContent, channelFds } from "../../wire/channel-content.js";
import type { HubPorts } from "../core/ports.js";
import type { Lease } from "../objects/shared-object.js";

export type Refuse = (found: string) => CudaIpcError;

type Ports<Fd> = Pick<HubPorts<Fd>, "inspectMemoryFile" | "isBell">;

/** Whether this descriptor of a channel is a file of words: the control file or a page. */
export function isWordsFile(index: number): boolean {
  return index === channelFdsAt.control || isPage(index);
}

export function isPage(index: number): boolean {
  return index >= channelFdsAt.page(0) && (index - channelFdsAt.page(0)) % 2 === 0;
}

/**
 * Checks everything except the data.
 * @returns the inode of each file, in the order of the descriptors; null for bells, which have none
 */
export function checkChannel<Fd>(
  content: ChannelContent,
  fds: readonly Fd[],
  ports: Ports<Fd>,
  refuse: Refuse,
): (string | null)[] {
  return fds.slice(1).map((fd, rest) => {
    const index = rest + 1;
    if (!isWordsFile(index)) {
      if (!ports.isBell(fd)) throw refuse(`descriptor ${index} is no bell (eventfd)`);
      return null;
    }
    const wanted = isPage(index) ? PAGE_BYTES : controlByteLength(content);
    const { inode, byteLength, sizeSealed, writable, flaw } = ports.inspectMemoryFile(fd);
    const what = isPage(index) ? `the page at descriptor ${index}` : "the control file";
    if (flaw !== undefined) throw refuse(`${what} cannot be used: ${flaw}`);
    if (byteLength !== wanted) throw refuse(`${what} has ${byteLength} bytes, wanted ${wanted}`);
    if (!sizeSealed)
      throw refuse(`${what} is not sealed against resizing (F_SEAL_SHRINK, F_SEAL_GROW)`);
    if (!writable) throw refuse(`${what} is read-only`);
    return inode;
  });
}

/**
 * Checks a reader's descriptors of a channel whose memory went with an earlier hub. They must be
 * the control file and page that the reader was given.
 * @throws INVALID_MESSAGE, INVALID_DESCRIPTOR
 */
export function checkParts<Fd>(
  attempt: string,
  lease: Lease<Fd>,
  fds: readonly Fd[],
  ports: Ports<Fd>,
): void {
  const { object, role, seat = 0 } = lease;
  const { content } = object.descriptor;
  const wanted = content.kind === "channel" && role === "reader" ? channelFds(content, role) : 0;
  if (fds.length !== wanted) {
    const found = `${fds.length} descriptors came with it, wanted ${wanted}`;
    throw new CudaIpcError("INVALID_MESSAGE", `Cannot ${attempt}: ${found}`);
  }
  const isSame = (mine: number, its: number) => {
    const fd = fds[mine];
    return fd !== undefined && ports.inspectMemoryFile(fd).inode === object.inodes[its];
  };
  const areSame =
    isSame(readerFdsAt.control, channelFdsAt.control) &&
    isSame(readerFdsAt.page, channelFdsAt.page(seat));
  const bells = [readerFdsAt.roomBell, readerFdsAt.bell].map((index) => fds[index]);
  if (areSame && bells.every((fd) => fd !== undefined && ports.isBell(fd))) return;
  throw new CudaIpcError(
    "INVALID_DESCRIPTOR",
    `Cannot ${attempt}: the descriptors are of another channel`,
  );
}
