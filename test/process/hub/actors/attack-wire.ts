/** What all attacks use: the attacker's own memory, and its connections to the hub. */
import { SystemError } from "../../../../src/base/errors.js";
import { libc } from "../../../../src/ffi/libc.js";
import { createMemoryFile } from "../../../../src/os/memory-file.js";
import type { OwnedFd } from "../../../../src/os/owned-fd.js";
import { SeqpacketSocket } from "../../../../src/os/seqpacket.js";
import { argument } from "../../../support/actor-side.js";
import { hostArray } from "../../../support/messages.js";

/** A name that no other attacker uses. */
export const own = argument(2);
export const socketPath = argument(0);
export const memory = createMemoryFile(own, 4096);
/** Prepares an attack, and returns the step to repeat. */
export type Attack = () => Step | Promise<Step>;
export type Step = () => unknown;

const POLLIN = 1;

/**
 * A connection that waits in the kernel, so that an attacker costs little more CPU time than the
 * hub spends.
 */
export class Wire {
  readonly socket = reach();
  /** The hub has hung up. */
  hasEnded = false;
  #lastId = 0;

  /** Returns undefined if the hub accepts no more for now, or has hung up. */
  send(fields: object, fds: readonly OwnedFd[] = []): number | undefined {
    this.#lastId += 1;
    return this.raw(Buffer.from(JSON.stringify({ v: 1, id: this.#lastId, ...fields })), fds)
      ? this.#lastId
      : undefined;
  }

  raw(bytes: Uint8Array, fds: readonly OwnedFd[] = []): boolean {
    try {
      return this.socket.trySend(bytes, fds);
    } catch {
      this.hasEnded = true;
      return false;
    }
  }

  /** Returns the next reply. Undefined if none came in time, or if the hub has hung up. */
  reply(timeoutMs = 1000): Record<string, unknown> | undefined {
    waitFor(this.socket, timeoutMs);
    const packet = this.socket.tryReceive();
    if (packet === "end") this.hasEnded = true;
    if (packet === undefined || packet === "end") return undefined;
    for (const fd of packet.fds) fd.close();
    const { result, error } = JSON.parse(Buffer.from(packet.bytes).toString());
    return result ?? { error };
  }

  ask(fields: object, fds: readonly OwnedFd[] = []): Record<string, unknown> | undefined {
    return this.send(fields, fds) === undefined ? undefined : this.reply();
  }

  greet(): this {
    this.ask({ op: "hello", client: { version: "0", program: "attacker" } });
    return this;
  }

  publish(name: string): number | undefined {
    const fields = { op: "create", name, lifetime: "held", descriptor: hostArray };
    return this.share(fields, [memory]);
  }

  /** Creates and publishes an object. Returns its lease, or undefined if the hub refused it. */
  share(fields: object, fds: readonly OwnedFd[]): number | undefined {
    const created = this.ask(fields, fds);
    this.ask({ op: "publish", object: created?.object ?? 1 });
    return created?.lease as number | undefined;
  }

  /** Sleeps for so long, or until the hub sends something. */
  sleep(timeoutMs: number): void {
    waitFor(this.socket, timeoutMs);
  }
}

/** WHY it retries: under these attacks the hub's accept queue is full. */
function reach(): SeqpacketSocket {
  for (;;) {
    try {
      return SeqpacketSocket.connect(socketPath);
    } catch (error) {
      if (!(error instanceof SystemError && error.errnoName === "EAGAIN")) throw error;
      libc().poll(new Uint8Array(8), 0, 1);
    }
  }
}

export function waitFor({ fd }: SeqpacketSocket, timeoutMs: number): void {
  const entry = new Uint8Array(new ArrayBuffer(8));
  const view = new DataView(entry.buffer);
  view.setInt32(0, fd.number, true);
  view.setInt16(4, POLLIN, true);
  libc().poll(entry, 1, timeoutMs);
}

/** A connection that is made again if the hub was killed. `again` is called with each new one. */
export function lasting(again: (wire: Wire) => void): () => Wire {
  let wire: Wire | undefined;
  return () => {
    if (wire?.hasEnded !== false) {
      wire?.socket.close();
      wire = new Wire().greet();
      again(wire);
    }
    return wire;
  };
}
