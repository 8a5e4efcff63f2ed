/** What came from the hub that ran, checked and put together: what it says of its state, and the descriptors that go with it. Trusts nothing. */
import { CudaIpcError } from "../base/errors.js";
import { releaseAll } from "../base/scope.js";
import type { BatchItem } from "../os/batch-layout.js";
import { isBell } from "../os/bell.js";
import { holdsLock } from "../os/file-lock.js";
import { inspectMemoryFile } from "../os/memory-file.js";
import type { OwnedFd } from "../os/owned-fd.js";
import type { QueuedMessage } from "../os/packet-channel.js";
import { SeqpacketListener, SeqpacketSocket } from "../os/seqpacket.js";
import { fdsOf } from "../wire/descriptor.js";
import { checkMemory, checkSameMemory } from "./check-descriptor.js";
import { closeHeld, type HeldConnection } from "./client-connection.js";
import { checkRecord, type HubRecord, type HubState, type ObjectRecord, replay } from "./hub-records.js";
import type { EarlierConnection, Inheritance } from "./inheritance.js";
import type { ConnectionId } from "./ports.js";
import type { ObjectMemory } from "./shared-object.js";
import { type ConnectionLine, checkHead, checkLine, linesOf, type TakeoverHead } from "./takeover-messages.js";

export interface HandedOver {
  readonly listener: SeqpacketListener;
  readonly lock: OwnedFd;
  readonly inheritance: Inheritance<OwnedFd>;
  readonly held: ReadonlyMap<ConnectionId, HeldConnection>;
}

/**
 * Takes over all descriptors, which are closed where this throws.
 * @throws INVALID_MESSAGE, INVALID_DESCRIPTOR
 */
export function readHandedOver(items: readonly BatchItem[]): HandedOver {
  try {
    const [first, ...rest] = items;
    if (first === undefined) throw refused("nothing came");
    return new HandedOverReader(first, rest).result();
  } catch (error) {
    releaseAll(items.flatMap(({ fds }) => fds.map((fd) => () => fd.close())));
    throw error;
  }
}

export function closeHandedOver({ listener, lock, inheritance, held }: HandedOver): void {
  const memory = [...inheritance.memory.values()].flatMap(({ fds }) => fds);
  releaseAll([
    () => listener.close(),
    () => lock.close(),
    ...memory.map((fd) => () => fd.close()),
    ...[...held.values()].map((connection) => () => closeHeld(connection)),
  ]);
}

class HandedOverReader {
  readonly #head: TakeoverHead;
  readonly #listener: SeqpacketListener;
  readonly #lock: OwnedFd;
  readonly #records: HubRecord[] = [];
  readonly #connections = new Map<ConnectionId, EarlierConnection>();
  readonly #held = new Map<ConnectionId, HeldConnection & { readonly queued: QueuedMessage[] }>();
  readonly #memory = new Map<number, readonly OwnedFd[]>();
  #queuedCount = 0;

  constructor(first: BatchItem, rest: readonly BatchItem[]) {
    const [listener, lock] = first.fds;
    if (listener === undefined || lock === undefined || first.fds.length !== 2) {
      throw refused(`${first.fds.length} descriptors came with the head, wanted 2`);
    }
    this.#head = checkHead(linesOf(first)[0]);
    this.#listener = SeqpacketListener.adopt(listener);
    this.#lock = lock;
    if (!holdsLock(lock)) throw refused("its lock is held by somebody else");
    for (const item of rest) this.#readItem(item);
  }

  result(): HandedOver {
    this.#checkCounts();
    const state = replay(this.#records);
    const memory = new Map<number, ObjectMemory<OwnedFd>>();
    for (const [object, fds] of this.#memory) memory.set(object, memoryOf(state, object, fds));
    const connections = [...this.#connections.values()];
    return {
      listener: this.#listener,
      lock: this.#lock,
      inheritance: { state, connections, memory },
      held: this.#held,
    };
  }

  #readItem(item: BatchItem): void {
    const fds = [...item.fds];
    const take = (count: number): OwnedFd[] => {
      if (count > fds.length) throw refused(`${count} descriptors are spoken of, and ${fds.length} came`);
      return fds.splice(0, count);
    };
    for (const value of linesOf(item)) this.#readLine(value, take);
    if (fds.length > 0) throw refused(`${fds.length} descriptors came that nothing speaks of`);
  }

  #readLine(value: unknown, take: (count: number) => OwnedFd[]): void {
    const line = checkLine(value);
    if (line === undefined) {
      this.#records.push(checkRecord("a record of the hub that ran", value));
    } else if (line.t === "connection") {
      const [socket] = line.hasSocket ? take(1) : [];
      const [pidfd] = line.hasPidfd ? take(1) : [];
      this.#addConnection(line, socket, pidfd);
    } else if (line.t === "memory") {
      if (this.#memory.has(line.object)) throw refused(`the memory of object ${line.object} came twice`);
      this.#memory.set(line.object, take(line.fds));
    } else {
      const held = this.#held.get(line.connection);
      if (held?.socket === undefined)
        throw refused(`replies came for connection ${line.connection}, which is not there`);
      held.queued.push({ bytes: Buffer.from(line.text, "utf8"), fds: take(line.fds) });
      this.#queuedCount += 1;
    }
  }

  #addConnection(line: ConnectionLine, socketFd: OwnedFd | undefined, pidfd: OwnedFd | undefined): void {
    const { id, peer, attached, session, unrestored } = line;
    if (this.#held.has(id)) throw refused(`connection ${id} came twice`);
    if (attached !== (socketFd !== undefined) || (socketFd ?? pidfd) === undefined) {
      throw refused(`connection ${id} came without what belongs to it`);
    }
    const socket = socketFd === undefined ? undefined : new SeqpacketSocket(socketFd);
    // WHY only the user: the number of a process is another one in each PID namespace.
    if (socket !== undefined && socket.peerCredentials().uid !== peer.uid) {
      throw refused(`connection ${id} is not of user ${peer.uid}`);
    }
    const waiting = line.waiting.map((request) => {
      if (request.op !== "open") throw refused(`connection ${id} waits for "${request.op}"`);
      return request;
    });
    this.#connections.set(id, { id, peer, attached, session, unrestored, waiting });
    this.#held.set(id, { peer, socket, queued: [], pidfd });
  }

  #checkCounts(): void {
    const { records, connections, memories, queued } = this.#head;
    const wanted = [records, connections, memories, queued];
    const found = [this.#records.length, this.#held.size, this.#memory.size, this.#queuedCount];
    if (found.some((count, index) => count !== wanted[index])) {
      throw refused(`${found.join(", ")} records, connections, memories and replies came, wanted ${wanted.join(", ")}`);
    }
  }
}

function memoryOf(state: HubState, object: number, fds: readonly OwnedFd[]): ObjectMemory<OwnedFd> {
  const record = state.objects.get(object)?.record;
  if (record === undefined) throw refused(`memory came of object ${object}, which is not there`);
  return matchingMemory(`take over "${record.name}"`, record, fds);
}

/**
 * An object's memory, where these descriptors are it.
 * @throws INVALID_DESCRIPTOR
 */
export function matchingMemory(attempt: string, record: ObjectRecord, fds: readonly OwnedFd[]): ObjectMemory<OwnedFd> {
  const [first, ...rest] = fds;
  const wanted = fdsOf(record.descriptor);
  if (first === undefined || fds.length !== wanted) {
    const found = `${fds.length} descriptors came, wanted ${wanted}`;
    throw new CudaIpcError("INVALID_DESCRIPTOR", `Cannot ${attempt}: ${found}`);
  }
  const found = checkMemory(attempt, record.descriptor, fds, { inspectMemoryFile, isBell });
  checkSameMemory(attempt, record, found);
  return { fds: [first, ...rest], writable: found.writable };
}

function refused(found: string): CudaIpcError {
  return new CudaIpcError("INVALID_MESSAGE", `Cannot take over a hub: ${found}`);
}
