/**
 * What the hub's core asks of the world. The server gives it sockets and descriptors; a test gives it a model.
 * Nothing here calls back into the core before it returns.
 */
import type { MemoryFileFacts } from "../os/memory-file.js";
import type { Reply } from "../wire/messages.js";

export type SessionId = number;

export interface HubPorts<Fd> {
  /** Sends a reply with descriptors attached; they stay the core's. A session that cannot take it is the server's concern. */
  reply(session: SessionId, reply: Reply, fds: readonly Fd[]): void;
  /** Hangs up, after what was replied. The server then reports the session's end as for any other. */
  hangUp(session: SessionId): void;
  /** Ends the hub, after what was replied. */
  stop(): void;
  closeFd(fd: Fd): void;
  inspectMemoryFile(fd: Fd): MemoryFileFacts;
  /** A descriptor of the same host memory that cannot be mapped writable; the core owns it. */
  reopenReadOnly(fd: Fd): Fd;
  /** Ends a timeline in host memory, whose owner is dead or has closed it, for everybody who waits for it. */
  endTimeline(memory: Fd, byteOffset: number): void;
  /** Wall-clock time in milliseconds. */
  now(): number;
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
