/**
 * Everything the hub's core needs from the outside world. The server connects it to sockets and
 * descriptors, and tests connect it to a model. No port calls the core before it returns.
 */
import type { CudaIpcError } from "../../base/errors.js";
import type { MemoryFileFacts } from "../../os/memory-file.js";
import type { ThreadIdentity } from "../../os/thread-identity.js";
import type { WithoutWriter } from "../../ring/channel-end.js";
import type { HubStatus, LostObject, Reply } from "../../wire/messages.js";
import type { HubRecord } from "../restart/hub-records.js";

/** The server's number for one socket. */
export type ConnectionId = number;
/** The number of a session, unique over all hubs of one boot. A session outlives its connection. */
export type SessionId = number;

/** The process at the other end of a socket, as the kernel describes it. */
export interface Peer {
  /** 0 if the hub cannot see its PID namespace, for example in another container. */
  readonly pid: number;
  /** The PID namespace of the hub that read `pid`. */
  readonly pidNamespace: number;
  /** The inode of its pidfds, which proves its identity. Null before Linux 6.9. */
  readonly pidfdInode: string | null;
  /** Clock ticks from boot to its start. Null if the inode is known, or if it cannot be found. */
  readonly startTicks: number | null;
  readonly uid: number;
  readonly gid: number;
  readonly groups: readonly number[];
}

/** A reply that is ready to send. Call `close` afterwards. */
export interface Outgoing<Fd> {
  readonly reply: Reply;
  readonly fds: readonly Fd[];
  close(): void;
}

export interface HubPorts<Fd> {
  /**
   * Sends a reply with descriptors, which stay the core's. The server handles failures to send.
   * @param again makes the reply anew if it cannot be sent at once; by default the same reply
   * without descriptors
   */
  reply(
    connection: ConnectionId,
    reply: Reply,
    fds: readonly Fd[],
    again?: () => Outgoing<Fd>,
  ): void;
  /** Hangs up after the replies so far. The server then reports the hang-up like any other. */
  hangUp(connection: ConnectionId): void;
  /** Closes a connection without events: another one of the same process has replaced it. */
  forget(connection: ConnectionId): void;
  /**
   * Ends the session with this worker thread: once the thread has hung up and ended, the server
   * calls `processEnded`. Returns false if the hub cannot see the thread. Its session then ends
   * some time after the hang-up.
   */
  watchThread(connection: ConnectionId, thread: ThreadIdentity): boolean;
  /** Reads nothing from this connection for so long. */
  pause(connection: ConnectionId, milliseconds: number): void;
  /**
   * Runs the step in a turn of this user, before the connection's next message, and again as long
   * as it returns true. `forget` drops the steps. A step that throws is logged and runs again.
   */
  later(connection: ConnectionId, uid: number, step: () => boolean): void;
  /** Ends the hub after the replies so far. */
  stop(): void;
  /**
   * Ends this process after the replies so far. The next hub goes on.
   * @throws NO_KEEPER if nobody would start the next hub; HUB_UNAVAILABLE if it would not find the
   * names
   */
  restart(): void;
  /**
   * Writes down what the next hub must know. Called before the change takes effect.
   * @throws if something is gained and cannot be written. Ends are never refused.
   */
  record(records: readonly HubRecord[]): void;
  /** An object has these descriptors now, to be kept for the next hub. They stay the core's. */
  memoryArrived(object: number, fds: readonly Fd[]): void;
  /** The object has ended. Its descriptors are closed next. */
  memoryGone(object: number): void;
  /** The session holds something, so the next hub must recognize the process on this connection. */
  holderArrived(session: SessionId, connection: ConnectionId): void;
  /** The session has ended. */
  holderGone(session: SessionId): void;
  /**
   * Whether the next hub would get this object's memory if this hub died now. If not, the server
   * calls `HubCore.kept` once it would, or after a timeout.
   */
  isKept(object: number): boolean;
  /** The keeper of the next hub's descriptors, and their counts. Null without a keeper. */
  keeper(): HubStatus["keeper"];
  /** Where a child process serves metrics of this hub. Null if none does. */
  metrics(): HubStatus["metrics"];
  /** A pinned object has ended because its memory was lost. */
  objectLost(description: string, lost: LostObject): void;
  /** A process has disconnected a session of this process and program. */
  disconnected(session: SessionId, peer: Peer, program: string, by: Peer): void;
  /** Closes now, or after the writes to it. */
  closeFd(fd: Fd): void;
  inspectMemoryFile(fd: Fd): MemoryFileFacts;
  /** Opens host memory anew so that it cannot be mapped writable. The core owns the result. */
  reopenReadOnly(fd: Fd): Fd;
  /** Opens host memory anew for writing. Returns undefined if the system does not allow it. */
  reopenWritable(fd: Fd): Fd | undefined;
  /**
   * Ends a timeline in host memory for all its waiters, or a mark. Its owner is dead or has closed
   * it.
   * @param user the object's creator. Writes for one user are made in order, perhaps later.
   */
  endTimeline(memory: Fd, byteOffset: number, user: number): void;
  /**
   * Marks that a timeline in host memory waits for its next owner.
   * @returns false if it had ended
   */
  awaitOwner(memory: Fd, byteOffset: number, user: number): boolean;
  /** Whether a descriptor can be GPU memory. Only the driver knows the size of GPU memory. */
  isDeviceMemory(fd: Fd): boolean;
  /** Whether a descriptor is a bell (eventfd). */
  isBell(fd: Fd): boolean;
  /** Gives a reader's page to the holder of this lease. Throws if it cannot be written. */
  beginSeat(page: Fd, lease: number, user: number): void;
  /** Frees the slots that a reader held. Its GPU work has ended. */
  endSeat(page: Fd, user: number): void;
  /**
   * Marks a channel whose writer has gone and whose GPU work has ended.
   * @returns false if the writer had closed the channel itself
   */
  endWriter(control: Fd, next: WithoutWriter, user: number): boolean;
  /** Wakes the waiters of this bell, after the writes for this user. Never waits itself. */
  ringBell(bell: Fd, user: number): void;
  /**
   * Calls back once the writes for this user so far are made, with the failure of the last.
   * @returns false if they are made. Then it does not call.
   */
  whenWritten(user: number, act: (failure: CudaIpcError | undefined) => void): boolean;
  /** @throws LIMIT_EXCEEDED if too many writes for this user wait */
  checkWritten(attempt: string, user: number): void;
  /** Current problems with the hub's files and with what the system refuses, one text each. */
  troubles(): readonly string[];
  /** Wall-clock time in milliseconds. */
  now(): number;
  /** Milliseconds of a clock that never goes back. */
  monotonicMs(): number;
}

export interface HubIdentity {
  readonly version: string;
  /** Unique among all hubs that ever ran. */
  readonly instance: string;
  readonly pid: number;
  readonly startedAtMs: number;
  readonly socket: string;
  readonly idleMs: number | null;
}
