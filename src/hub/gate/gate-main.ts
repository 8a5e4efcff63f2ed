/**
 * The hub's gate: the process that receives messages with descriptors instead of the hub. It passes
 * memory files, bells and GPU memory on to the hub. It keeps everything else open, because closing
 * a foreign descriptor can block for as long as its sender likes. A gate that blocks harms nobody:
 * the hub replaces a gate that keeps something, and the old one ends with it.
 */
import { CudaIpcError } from "../../base/errors.js";
import { limits } from "../../base/limits.js";
import { closesAtOnce, kindOf } from "../../os/foreign-fd.js";
import type { OwnedFd } from "../../os/owned-fd.js";
import { type Packet, SeqpacketSocket } from "../../os/seqpacket.js";
import { HubLine } from "../child/hub-line.js";
import { encodeGateLine, type GateLine, gateOrders } from "./gate-messages.js";

/** The most that one order receives, because other orders wait meanwhile. */
const MESSAGES_PER_ORDER = 16;
const DESCRIPTORS_PER_ORDER = 64;

/** Kept reachable: an OwnedFd closes when it is collected. */
const kept: OwnedFd[] = [];

const hub = new HubLine();
hub.serve(obey);

function obey({ bytes: [order], fds: [fd] }: Packet): void {
  if (fd === undefined) return;
  if (order === gateOrders.receive) {
    const socket = new SeqpacketSocket(fd);
    receive(socket);
    // Safe to close: the hub has the socket too, so no descriptor in it is closed here.
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
    hasMore =
      count < MESSAGES_PER_ORDER && seen < DESCRIPTORS_PER_ORDER && socket.look() === "descriptors";
    // Sent with the last message: a separate line costs both sides a call and a look.
    const last = hasMore ? {} : { kept: kept.length - keptBefore };
    if (refusal === undefined) pass(bytes, fds, last);
    else refuse(bytes, refusal, last);
    if (!hasMore) return;
  }
  say({ kind: "done", kept: kept.length - keptBefore });
}

/** Says why the message is refused, if it is, and keeps its descriptors. */
function judge(fds: readonly OwnedFd[]): CudaIpcError | undefined {
  const kinds = fds.map(kindOf);
  const refused = kinds.findIndex((kind) => !closesAtOnce(kind));
  if (refused < 0) return undefined;
  // WHY memory as well: closing the last descriptor of large memory takes as long as freeing it.
  kept.push(...fds);
  const found = `descriptor ${refused} is of a kind that no hub takes: ${kinds[refused]}`;
  return new CudaIpcError("INVALID_DESCRIPTOR", `Cannot take the message: ${found}`);
}

function pass(bytes: Uint8Array, fds: readonly OwnedFd[], last: { readonly kept?: number }): void {
  say({ kind: "message", ...last });
  // An empty message cannot be sent. A space is no request either.
  hub.send(bytes.byteLength === 0 ? Buffer.from(" ") : bytes, fds);
  for (const fd of fds) fd.close();
}

function refuse(
  bytes: Uint8Array,
  { code, message }: CudaIpcError,
  last: { readonly kept?: number },
): void {
  say({ kind: "refused", code, message, ...last });
  hub.send(bytes.byteLength === 0 ? Buffer.from(" ") : bytes.subarray(0, limits.messageBytesMax));
}

function say(line: GateLine): void {
  hub.send(encodeGateLine(line));
}
