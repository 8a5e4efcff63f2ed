/**
 * The hub's gate: the process that receives messages with descriptors in the hub's stead. Memory files, bells and memory of GPUs go on to
 * the hub. Everything else stays here unclosed, since to close a descriptor of others can wait for as long as they like, and a wait of
 * this process harms nobody: the hub replaces a gate that has kept something, and this one ends with it.
 */
import { CudaIpcError } from "../base/errors.js";
import { limits } from "../base/limits.js";
import { closesAtOnce, kindOf } from "../os/foreign-fd.js";
import { OwnedFd } from "../os/owned-fd.js";
import { POLLIN, POLLOUT, pollFd } from "../os/poll-fd.js";
import { type Packet, SeqpacketSocket } from "../os/seqpacket.js";
import { encodeGateLine, type GateLine, gateOrders } from "./gate-messages.js";

const HUB_FD = 3;
const FOREVER = -1;
/** Received for one order: others wait meanwhile. */
const MESSAGES_PER_ORDER = 16;
const DESCRIPTORS_PER_ORDER = 64;

/** WHY kept reachable: an OwnedFd that is collected is closed. */
const kept: OwnedFd[] = [];

// WHY: the hub decides when this ends. A terminal and a service manager signal both at once.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => {});

const hub = new SeqpacketSocket(OwnedFd.adopt(HUB_FD));
say({ kind: "ready" });
// WHY a loop that waits, and no event loop: a client waits for each answer, and this is the shortest way to one.
for (;;) {
  const order = hub.tryReceive();
  if (order === undefined) pollFd(hub.fd, POLLIN, FOREVER);
  else if (order === "end") process.exit();
  else obey(order);
}

function obey({ bytes: [order], fds: [fd] }: Packet): void {
  if (fd === undefined) return;
  if (order === gateOrders.receive) {
    const socket = new SeqpacketSocket(fd);
    receive(socket);
    // WHY after all was said: the hub has the socket too, so nothing in it is closed here.
    socket.close();
  } else {
    kept.push(fd);
    say({ kind: "done", kept: 1 });
  }
}

function receive(socket: SeqpacketSocket): void {
  const keptBefore = kept.length;
  let hasMore = socket.look() === "descriptors";
  let seen = 0;
  for (let count = 1; hasMore; count += 1) {
    const packet = socket.tryReceive((fd) => kept.push(fd));
    if (packet === undefined || packet === "end") break;
    const { bytes, fds, damage } = packet;
    const refusal = damage ?? judge(fds);
    seen += fds.length;
    hasMore = count < MESSAGES_PER_ORDER && seen < DESCRIPTORS_PER_ORDER && socket.look() === "descriptors";
    // WHY with the last message: a line of its own costs both sides a call and a look.
    const last = hasMore ? {} : { kept: kept.length - keptBefore };
    if (refusal === undefined) pass(bytes, fds, last);
    else refuse(bytes, refusal, last);
    if (!hasMore) return;
  }
  say({ kind: "done", kept: kept.length - keptBefore });
}

/** Why the message is refused, if it is. Its descriptors are kept then. */
function judge(fds: readonly OwnedFd[]): CudaIpcError | undefined {
  const kinds = fds.map(kindOf);
  const refused = kinds.findIndex((kind) => !closesAtOnce(kind));
  if (refused < 0) return undefined;
  // WHY memory too: to close the last descriptor of large memory takes as long as to free it.
  kept.push(...fds);
  const found = `descriptor ${refused} is of a kind that no hub takes: ${kinds[refused]}`;
  return new CudaIpcError("INVALID_DESCRIPTOR", `Cannot take the message: ${found}`);
}

function pass(bytes: Uint8Array, fds: readonly OwnedFd[], last: { readonly kept?: number }): void {
  say({ kind: "message", ...last });
  // WHY a space: a message of no bytes cannot be sent, and is no request either.
  send(bytes.byteLength === 0 ? Buffer.from(" ") : bytes, fds);
  for (const fd of fds) fd.close();
}

function refuse(bytes: Uint8Array, { code, message }: CudaIpcError, last: { readonly kept?: number }): void {
  say({ kind: "refused", code, message, ...last });
  send(bytes.byteLength === 0 ? Buffer.from(" ") : bytes.subarray(0, limits.messageBytesMax));
}

function say(line: GateLine): void {
  send(encodeGateLine(line));
}

/** WHY it may wait: the hub reads all that its gate says, and there is nobody else to serve. */
function send(bytes: Uint8Array, fds: readonly OwnedFd[] = []): void {
  while (!hub.trySend(bytes, fds)) pollFd(hub.fd, POLLOUT, FOREVER);
}
