/** A client that sends any message, right or wrong. */
import assert from "node:assert/strict";
import { libc } from "../../src/ffi/libc.js";
import { addressOf } from "../../src/os/host-memory.js";
import type { OwnedFd } from "../../src/os/owned-fd.js";
import { SeqpacketSocket } from "../../src/os/seqpacket.js";
import { MessageMemory, MSG_NOSIGNAL } from "../../src/os/socket-layout.js";
import { until } from "./until.js";

export interface RawReply {
  readonly id: number;
  readonly ok: boolean;
  readonly result?: Record<string, unknown>;
  readonly error?: { readonly code: string; readonly message: string };
}

export class RawClient {
  readonly socket: SeqpacketSocket;
  #lastId = 0;

  private constructor(socketPath: string) {
    this.socket = SeqpacketSocket.connect(socketPath);
  }

  static async connect(socketPath: string, greet = true): Promise<RawClient> {
    const client = new RawClient(socketPath);
    if (greet) await client.ask({ op: "hello", client: { version: "0", program: "raw" } });
    return client;
  }

  /** Sends a request and waits for the next reply. */
  async ask(fields: Record<string, unknown>, fds: readonly OwnedFd[] = []): Promise<RawReply> {
    this.send(fields, fds);
    const reply = await this.reply();
    assert.ok(reply !== "end", "the hub hung up");
    return reply;
  }

  /** Sends a request, numbered unless `fields` says otherwise. */
  send(fields: Record<string, unknown>, fds: readonly OwnedFd[] = []): void {
    this.#lastId += 1;
    this.sendText(JSON.stringify({ v: 1, id: this.#lastId, ...fields }), fds);
  }

  sendText(text: string, fds: readonly OwnedFd[] = []): void {
    assert.ok(this.socket.trySend(Buffer.from(text), fds), "the hub does not read");
  }

  /** Sends without any check on this side. @returns the bytes sent, or -1 on failure */
  sendUnchecked(bytes: Uint8Array, fds: readonly OwnedFd[] = []): number {
    return sendUnchecked(this.socket, bytes, fds);
  }

  /** Waits for the next reply and closes its descriptors; "end" if the hub hung up. */
  async reply(): Promise<RawReply | "end"> {
    let found: RawReply | "end" | undefined;
    await until("the hub replies", () => {
      const packet = this.socket.tryReceive();
      if (packet === undefined) return false;
      if (packet !== "end") for (const fd of packet.fds) fd.close();
      found =
        packet === "end" ? "end" : (JSON.parse(Buffer.from(packet.bytes).toString()) as RawReply);
      return true;
    });
    return found as RawReply | "end";
  }

  [Symbol.dispose](): void {
    this.socket.close();
  }
}

/** Sends any number of bytes, even 0. */
export function sendUnchecked(
  socket: SeqpacketSocket,
  bytes: Uint8Array,
  fds: readonly OwnedFd[] = [],
): number {
  const memory = new MessageMemory(Math.max(1, bytes.byteLength), addressOf);
  memory.data.set(bytes);
  memory.prepareSend(
    bytes.byteLength,
    fds.map((fd) => fd.number),
  );
  return Number(libc().sendmsg(socket.fd.number, memory.header, MSG_NOSIGNAL));
}
