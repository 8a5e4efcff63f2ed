/**
 * The side of the hub that runs: sends all that it has to the process that takes its place, and learns whether that has it. Changes
 * nothing of its own: until the last word is sent, this hub can go on as if nothing had been.
 */
import { Deadline } from "../base/deadline.js";
import { CudaIpcError } from "../base/errors.js";
import type { BatchItem } from "../os/batch-layout.js";
import { sendBatches } from "../os/fd-batches.js";
import type { OwnedFd } from "../os/owned-fd.js";
import type { SeqpacketListener, SeqpacketSocket } from "../os/seqpacket.js";
import type { HeldConnection } from "./client-connection.js";
import { recordsOf } from "./hub-records.js";
import type { Inheritance } from "./inheritance.js";
import { onePacket } from "./one-packet.js";
import type { ConnectionId } from "./ports.js";
import {
  type AttachedLine,
  type ConnectionLine,
  decodeWord,
  encodeWord,
  packed,
  type TakeoverHead,
} from "./takeover-messages.js";

/** All that a hub has, while nothing of it changes. It stays the caller's. */
export interface Estate {
  readonly listener: SeqpacketListener;
  readonly lock: OwnedFd;
  readonly inheritance: Inheritance<OwnedFd>;
  readonly held: ReadonlyMap<ConnectionId, HeldConnection>;
}

export interface HandOverOptions {
  /** For each step: sending all of it, and the successor's word that it is ready. */
  readonly stepTimeoutMs: number;
  readonly log: (line: string) => void;
}

/**
 * Returns once the successor has everything and was told that it is its own. Closes the socket.
 * @throws where the successor did not take it: it hung up, was too slow, or says that it failed
 */
export async function handOver(
  socket: SeqpacketSocket,
  estate: Estate,
  { stepTimeoutMs, log }: HandOverOptions,
): Promise<void> {
  const attempt = "hand over the hub";
  const step = () => new Deadline(attempt, {}, stepTimeoutMs);
  await sendBatches(socket, items(estate), step());
  try {
    log("the successor has everything");
    const word = decodeWord(await onePacket(socket, attempt, step()));
    if (word.op !== "ready") {
      const found = word.op === "failed" ? word.message : `the successor said "${word.op}"`;
      throw new CudaIpcError("HUB_UNAVAILABLE", `Cannot hand over the hub: ${found}`);
    }
    log("the successor is ready");
    // WHY an error where it is not sent: a successor that has not heard it ends, unless this process does.
    if (!socket.trySend(encodeWord({ op: "yours" })))
      throw new CudaIpcError("TIMEOUT", "Cannot hand over the hub: the successor does not read");
  } catch (error) {
    takeBack(socket, log);
    throw error;
  } finally {
    socket.close();
  }
}

/** WHY said: a successor that has everything takes the end of a connection for the end of this process, once that has ended too. */
function takeBack(socket: SeqpacketSocket, log: (line: string) => void): void {
  if (socket.fd.closed) return;
  try {
    socket.trySend(encodeWord({ op: "mine" }));
  } catch (error) {
    log(`could not tell the successor: ${String(error)}`);
  }
}

function* items({ listener, lock, inheritance, held }: Estate): Generator<BatchItem> {
  const records = [...recordsOf(inheritance.state)];
  const connections = connectionLines(inheritance, held);
  const memories = [...inheritance.memory].map(([object, { fds }]) => ({
    value: { t: "memory", object, fds: fds.length },
    fds,
  }));
  const queued = [...held].flatMap(([connection, { queued }]) =>
    queued.map(({ bytes, fds }) => {
      const text = Buffer.from(bytes).toString("utf8");
      return { value: { t: "queued", connection, text, fds: fds.length }, fds };
    }),
  );
  const head: TakeoverHead = {
    t: "head",
    pid: process.pid,
    records: records.length,
    connections: connections.length,
    memories: memories.length,
    queued: queued.length,
  };
  yield* packed([{ value: head, fds: [listener.fd, lock] }]);
  yield* packed([...records.map((value) => ({ value, fds: [] })), ...connections, ...memories, ...queued]);
}

function connectionLines(
  { connections }: Inheritance<OwnedFd>,
  held: ReadonlyMap<ConnectionId, HeldConnection>,
): AttachedLine[] {
  return connections.flatMap((connection) => {
    const found = held.get(connection.id);
    // The successor's own.
    if (found === undefined) return [];
    const { socket, pidfd } = found;
    const { groups, ...peer } = connection.peer;
    const value: ConnectionLine = {
      ...connection,
      t: "connection",
      peer: { ...peer, groups: [...groups] },
      unrestored: connection.unrestored === null ? null : [...connection.unrestored],
      waiting: [...connection.waiting],
      hasSocket: socket !== undefined,
      hasPidfd: pidfd !== undefined,
    };
    const fds = [...(socket === undefined ? [] : [socket.fd]), ...(pidfd === undefined ? [] : [pidfd])];
    return [{ value, fds }];
  });
}
