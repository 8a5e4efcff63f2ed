/** A hub in the test's process. The test decides its answers: right, wrong, late or none. */

import { FdWatch } from "../../src/os/fd-watch.js";
import type { OwnedFd } from "../../src/os/owned-fd.js";
import { PacketChannel } from "../../src/os/packet-channel.js";
import type { Packet, SeqpacketSocket } from "../../src/os/seqpacket.js";
import { SeqpacketListener } from "../../src/os/seqpacket-listener.js";
import { sendUnchecked } from "./raw-client.js";
import { until } from "./until.js";

export interface HeardRequest {
  readonly id: number;
  readonly op: string;
  /** The number of descriptors that came with it. */
  readonly fds: number;
  readonly [field: string]: unknown;
}

/**
 * A result, alone or with descriptors; `undefined` for no answer; an error's code; or "hang up".
 */
export type Answer =
  | Record<string, unknown>
  | undefined
  | { readonly code: string; readonly message?: string }
  | "hang up"
  | { readonly result: Record<string, unknown>; readonly fds: readonly OwnedFd[] };

export type Script = (request: HeardRequest, connection: ScriptedConnection) => Answer;

export class ScriptedConnection {
  readonly heard: HeardRequest[] = [];
  /** The descriptors of all requests, in order. They are closed with the connection. */
  readonly fds: OwnedFd[] = [];
  readonly #channel: PacketChannel;

  constructor(socket: SeqpacketSocket, script: () => Script) {
    this.#channel = new PacketChannel(socket, {
      onPacket: (packet) => this.#onPacket(packet, script()),
      onEnd: () => this.hangUp(),
    });
  }

  get open(): boolean {
    return this.#channel.open;
  }

  /** The operations of its requests, in order. */
  get ops(): string[] {
    return this.heard.map(({ op }) => op);
  }

  reply(id: number, result: Record<string, unknown>, fds: readonly OwnedFd[] = []): void {
    this.#send({ v: 1, id, ok: true, result }, fds);
  }

  refuse(id: number, code: string, message = `Refused by the script with ${code}`): void {
    this.#send({ v: 1, id, ok: false, error: { code, message } });
  }

  sendText(text: string): void {
    this.#channel.send(Buffer.from(text));
  }

  /** Sends any number of bytes at once. */
  sendBytes(bytes: Uint8Array, fds: readonly OwnedFd[] = []): void {
    if (this.#channel.open) sendUnchecked(this.#channel.socket, bytes, fds);
  }

  hangUp(): void {
    this.#channel.close();
    for (const fd of this.fds) fd.close();
  }

  #send(reply: object, fds: readonly OwnedFd[] = []): void {
    if (this.#channel.open) this.#channel.send(Buffer.from(JSON.stringify(reply)), fds);
  }

  #onPacket(packet: Packet, script: Script): void {
    const request = {
      ...JSON.parse(Buffer.from(packet.bytes).toString()),
      fds: packet.fds.length,
    } as HeardRequest;
    this.fds.push(...packet.fds);
    this.heard.push(request);
    const answer = script(request, this);
    if (answer === undefined) return;
    if (answer === "hang up") this.hangUp();
    else if ("code" in answer)
      this.refuse(request.id, String(answer.code), answer.message as string | undefined);
    else if ("fds" in answer)
      this.reply(request.id, answer.result as Record<string, unknown>, answer.fds as OwnedFd[]);
    else this.reply(request.id, answer);
  }
}

export class ScriptedHub {
  readonly connections: ScriptedConnection[] = [];
  script: Script;
  readonly #listener: SeqpacketListener;
  readonly #watch: FdWatch;

  constructor(socketPath: string, script: Script) {
    this.script = script;
    this.#listener = SeqpacketListener.listen(socketPath);
    this.#watch = new FdWatch(this.#listener.fd, () => this.#accept());
  }

  /** The latest connection. */
  get latest(): ScriptedConnection {
    const connection = this.connections.at(-1);
    if (connection === undefined) throw new Error("no client has connected");
    return connection;
  }

  /** Waits for this request on the latest connection, and returns it. */
  async heard(op: string, connections = 1): Promise<HeardRequest> {
    const find = () => this.latest.heard.find((request) => request.op === op);
    await until(
      `the hub hears ${op}`,
      () => this.connections.length >= connections && find() !== undefined,
    );
    return find() as HeardRequest;
  }

  #accept(): void {
    for (;;) {
      const socket = this.#listener.tryAccept();
      if (socket === undefined) return;
      this.connections.push(new ScriptedConnection(socket, () => this.script));
    }
  }

  [Symbol.dispose](): void {
    this.#watch.close();
    this.#listener.close();
    for (const connection of this.connections) connection.hangUp();
  }
}

/**
 * Answers like a hub that grants everything and resumes every session.
 * @param overrides scripts for single operations
 */
export function obliging(overrides: Partial<Record<string, Script>> = {}): Script {
  let lastId = 100;
  return (request, connection) => {
    const special = overrides[request.op];
    if (special !== undefined) return special(request, connection);
    lastId += 1;
    const { resume } = request as { resume?: { session: number } };
    switch (request.op) {
      case "hello":
        return {
          version: "0",
          instance: "scripted",
          pid: 1,
          session: resume?.session ?? lastId,
          resumed: !!resume,
        };
      case "create":
        lastId += 1;
        return { object: lastId, lease: lastId - 1 };
      case "list":
        return { objects: [], next: null };
      default:
        return {};
    }
  };
}
