/**
 * What the hub's core asks of the world. The server gives it sockets and descriptors; a test gives it a model.
 * Nothing here calls back into the core before it returns.
 */
import type { MemoryFileFacts } from "../os/memory-file.js";
import type { ThreadIdentity } from "../os/thread-identity.js";
import type { WithoutWriter } from "../ring/channel-end.js";
import type { HubStatus, Reply } from "../wire/messages.js";
import type { HubRecord } from "./hub-records.js";

/** One socket, numbered by the server. */
export type ConnectionId = number;
/** What a client holds, over all of its connections and over all hubs of a boot. */
export type SessionId = number;

/** Who is on the other side of a socket, as the kernel says. */
export interface Peer {
  /** 0 if it is in a PID namespace that the hub's does not show, as in another container. */
  readonly pid: number;
  /** The PID namespace in which `pid` counts: that of the hub which saw it. */
  readonly pidNamespace: number;
  /** The inode of its pidfds, which is the proof of its identity; null before Linux 6.9. */
  readonly pidfdInode: string | null;
  /** Clock ticks from the boot to the start of the process; null where the inode is there to know it by, or it cannot be found. */
  readonly startTicks: number | null;
  readonly uid: number;
  readonly gid: number;
  readonly groups: readonly number[];
}

/** What to send, until `close`. */
export interface Outgoing<Fd> {
  readonly reply: Reply;
  readonly fds: readonly Fd[];
  close(): void;
}

export interface HubPorts<Fd> {
  /**
   * Sends a reply with descriptors attached; they stay the core's. A connection that cannot take it is the server's concern.
   * @param again gives what to send if it could not be sent at once; by default the same reply, without descriptors
   */
  reply(connection: ConnectionId, reply: Reply, fds: readonly Fd[], again?: () => Outgoing<Fd>): void;
  /** Hangs up, after what was replied. The server then reports the end of the connection as for any other. */
  hangUp(connection: ConnectionId): void;
  /** Another connection of the same process has taken this one's place: nothing more is said or asked of it. */
  forget(connection: ConnectionId): void;
  /**
   * The session of this connection is a worker thread's: once the thread has hung up and ended, its process counts as
   * ended. Returns false if the hub cannot see the thread, which then is given up some time after it hung up.
   */
  watchThread(connection: ConnectionId, thread: ThreadIdentity): boolean;
  /** Takes no messages from this connection for so long. */
  pause(connection: ConnectionId, milliseconds: number): void;
  /**
   * Runs the step in a turn of this user, before what the connection sends next, and again while it returns true. A connection that is
   * forgotten meanwhile loses its steps. What a step throws is logged, and it runs again.
   */
  later(connection: ConnectionId, uid: number, step: () => boolean): void;
  /** Ends the hub, after what was replied. */
  stop(): void;
  /**
   * Ends this process for the next hub to go on, after what was replied.
   * @throws NO_KEEPER if nobody would start the next hub
   */
  restart(): void;
  /**
   * Keeps what the next hub must know if this one dies. Called before the change takes effect.
   * @throws where something is gained and could not be written down; what ends is never refused
   */
  record(records: readonly HubRecord[]): void;
  /** These descriptors are an object's from here on: a service manager can keep them over the death of the hub. They stay the core's. */
  memoryArrived(object: number, fds: readonly Fd[]): void;
  /** The object has ended, and its descriptors are about to be closed. */
  memoryGone(object: number): void;
  /** The process on this connection has something of this session's, which the next hub must be able to tell it by. */
  holderArrived(session: SessionId, connection: ConnectionId): void;
  /** The session has ended. */
  holderGone(session: SessionId): void;
  /** Whether the next hub would have this object's memory if this one died now. If not, `HubCore.kept` is called when it is, or soon. */
  isKept(object: number): boolean;
  /** Who keeps what the next hub needs, and how much; null without a keeper. */
  keeper(): HubStatus["keeper"];
  /** A pinned object has ended because its memory was lost; in words. */
  objectLost(words: string): void;
  closeFd(fd: Fd): void;
  inspectMemoryFile(fd: Fd): MemoryFileFacts;
  /** A descriptor of the same host memory that cannot be mapped writable; the core owns it. */
  reopenReadOnly(fd: Fd): Fd;
  /** A writable descriptor of host memory, of which one for reading is here; undefined where the system does not allow that. */
  reopenWritable(fd: Fd): Fd | undefined;
  /** Ends a timeline in host memory, whose owner is dead or has closed it, for everybody who waits for it. */
  endTimeline(memory: Fd, byteOffset: number): void;
  /** Whether a descriptor can be memory of a GPU, whose size its driver alone knows. */
  isDeviceMemory(fd: Fd): boolean;
  /** Whether a descriptor is a bell (eventfd). */
  isBell(fd: Fd): boolean;
  /** A reader's page is given to the holder of this lease. @throws where it cannot be written */
  beginPlace(page: Fd, lease: number): void;
  /** A reader is gone, and its GPU work has ended: what it held of the channel is free. */
  endPlace(page: Fd): void;
  /** A channel's writer is gone, and its GPU work has ended. False where it had closed the channel itself. */
  endWriter(control: Fd, next: WithoutWriter): boolean;
  /** Wakes who waits for this bell, and never waits itself. */
  ringBell(bell: Fd): void;
  /** What is amiss with the hub's files, a sentence each. */
  troubles(): readonly string[];
  /** Wall-clock time in milliseconds. */
  now(): number;
  /** Milliseconds that only go forward. */
  monotonicMs(): number;
}

export interface HubIdentity {
  readonly version: string;
  /** Differs between any two hubs that ever ran. */
  readonly instance: string;
  readonly pid: number;
  readonly startedAtMs: number;
  readonly socket: string;
  readonly idleMs: number | null;
}
