/**
 * The hub's gate: the process that receives messages with descriptors in the hub's stead. Memory files, bells and memory of GPUs go on to
 * the hub. Everything else stays here unclosed, since to close a descriptor of others can wait for as long as they like, and a wait of
 * this process harms nobody: the hub replaces a gate that has kept something, and this one ends with it.
 */
import { CudaIpcError } from "../base/errors.js";
import { limits } from "../base/limits.js";
import { closesAtOnce, kindOf } from "../os/foreign-fd.js";
import { OwnedFd } from "../os/owned-fd.js";
import { PacketChannel } from "../os/packet-channel.js";
import { type Packet, SeqpacketSocket } from "../os/seqpacket.js";
import { encodeGateLine, type GateLine, gateOrders } from "./gate-messages.js";

const HUB_FD = 3;
/** Messages received for one order: others wait meanwhile. */
const MESSAGES_PER_ORDER = 16;

/** WHY kept reachable: an OwnedFd that is collected is closed. */
const kept: OwnedFd[] = [];

// WHY: the hub decides when this ends. A terminal and a service manager signal both at once.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => {});

const hub = new PacketChannel(
  new SeqpacketSocket(OwnedFd.adopt(HUB_FD)),
  // WHY not closed before: it is the kernel that closes all when a process ends, and this one has nothing else to do then.
  { onPacket: (packet) => obey(packet), onEnd: () => process.exit(0) },
  { queueMessagesMax: limits.gateQueueMessagesMax },
);
say({ kind: "ready" });

function obey({ bytes: [order], fds: [fd] }: Packet): void {
  if (fd === undefined) return;
  const keptBefore = kept.length;
  const socket = new SeqpacketSocket(fd);
  if (order === gateOrders.receive) receive(socket);
  else kept.push(fd);
  say({ kind: "done", kept: kept.length - keptBefore });
  // WHY after that: the hub has the socket too, so nothing in it is closed here.
  if (order === gateOrders.receive) socket.close();
}

function receive(socket: SeqpacketSocket): void {
  for (let count = 0; count < MESSAGES_PER_ORDER && socket.bringsDescriptors(); count += 1) {
    const packet = socket.tryReceive((fd) => kept.push(fd));
    if (packet === undefined || packet === "end") return;
    const { bytes, fds, damage } = packet;
    const refusal = damage ?? judge(fds);
    if (refusal === undefined) pass(bytes, fds);
    else refuse(bytes, refusal);
  }
}

/** Keeps what cannot be closed. Why the message is refused, if it is. */
function judge(fds: readonly OwnedFd[]): CudaIpcError | undefined {
  const kinds = fds.map(kindOf);
  const refused = kinds.findIndex((kind) => !closesAtOnce(kind));
  if (refused < 0) return undefined;
  for (const [index, fd] of fds.entries()) {
    if (closesAtOnce(kinds[index] ?? "unknown file")) fd.close();
    else kept.push(fd);
  }
  const found = `descriptor ${refused} is of a kind that no hub takes: ${kinds[refused]}`;
  return new CudaIpcError("INVALID_DESCRIPTOR", `Cannot take the message: ${found}`);
}

function pass(bytes: Uint8Array, fds: readonly OwnedFd[]): void {
  say({ kind: "message" });
  // WHY a space: a message of no bytes cannot be sent, and is no request either.
  hub.send(bytes.byteLength === 0 ? Buffer.from(" ") : bytes, fds);
  for (const fd of fds) fd.close();
}

function refuse(bytes: Uint8Array, { code, message }: CudaIpcError): void {
  say({ kind: "refused", code, message });
  hub.send(bytes.byteLength === 0 ? Buffer.from(" ") : bytes.subarray(0, limits.messageBytesMax));
}

function say(line: GateLine): void {
  hub.send(encodeGateLine(line));
}
