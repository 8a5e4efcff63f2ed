/**
 * A hub that answers in bad faith: with other or damaged results, wrong descriptors or numbers,
 * twice, late or never. Some answers are correct, so that its clients get far enough.
 */
import { limits } from "../../src/base/limits.js";
import { FdWatch } from "../../src/os/fd-watch.js";
import { createConstantFile, createMemoryFile } from "../../src/os/memory-file.js";
import type { OwnedFd } from "../../src/os/owned-fd.js";
import { PacketChannel } from "../../src/os/packet-channel.js";
import type { Packet, SeqpacketSocket } from "../../src/os/seqpacket.js";
import { SeqpacketListener } from "../../src/os/seqpacket-listener.js";
import { decodeRequest } from "../../src/wire/codec.js";
import { type Descriptor, fdsOf } from "../../src/wire/descriptor.js";
import type { Request } from "../../src/wire/messages.js";
import { MessageMutations } from "./message-mutations.js";
import { hostBundle, results } from "./messages.js";
import { OddFds } from "./odd-fds.js";
import type { Random } from "./random.js";
import { sendUnchecked } from "./raw-client.js";

const INDEX_BYTES = 200;
const INDEX = JSON.stringify({
  version: 1,
  metadata: {},
  arrays: [{ name: "w", dtype: "int32", shape: [3], strides: [1], byteOffset: 0 }],
}).padEnd(INDEX_BYTES, " ");

const REFUSALS = ["NOT_FOUND", "NAME_TAKEN", "LIMIT_EXCEEDED", "no such code", ""];

interface Reply {
  readonly bytes: Uint8Array;
  readonly fds: readonly OwnedFd[];
}

export class HostileHub {
  readonly #random: Random;
  readonly #listener: SeqpacketListener;
  readonly #watch: FdWatch;
  readonly #channels = new Set<PacketChannel>();
  readonly #odd = new OddFds();
  readonly #memory = createMemoryFile("memory", 4096);
  readonly #index = createConstantFile("index", Buffer.from(INDEX));
  readonly #mutations: MessageMutations;
  readonly #late: Reply[] = [];
  /** The probability of bad faith, before each kind's own share. */
  malice = 0.1;
  /** Whether its lists end. If false, each page says that another page follows. */
  listsEnd = true;

  constructor(socketPath: string, random: Random) {
    this.#random = random;
    const samples = Object.values(results)
      .flat()
      .map((result) => ({ v: 1, id: 1, ok: true, result }));
    this.#mutations = new MessageMutations(random, samples, {
      names: ["frame", "other"],
      numbers: [],
    });
    this.#listener = SeqpacketListener.listen(socketPath);
    this.#watch = new FdWatch(this.#listener.fd, () => this.#acceptAll());
  }

  get clientCount(): number {
    return this.#channels.size;
  }

  [Symbol.dispose](): void {
    this.#watch.close();
    this.#listener.close();
    for (const channel of this.#channels) channel.close();
    this.#odd[Symbol.dispose]();
    this.#memory.close();
    this.#index.close();
  }

  #acceptAll(): void {
    for (
      let socket = this.#listener.tryAccept();
      socket !== undefined;
      socket = this.#listener.tryAccept()
    ) {
      this.#serve(socket);
    }
  }

  #serve(socket: SeqpacketSocket): void {
    const channel: PacketChannel = new PacketChannel(socket, {
      onPacket: (packet) => this.#onPacket(channel, packet),
      onEnd: () => this.#channels.delete(channel),
    });
    this.#channels.add(channel);
  }

  #onPacket(channel: PacketChannel, packet: Packet): void {
    for (const fd of packet.fds) fd.close();
    const request = decodeRequest(packet.bytes);
    for (const late of this.#late.splice(0)) this.#send(channel, late);
    const reply = this.#replyTo(request);
    // WHY "bye" is always answered: a closing client waits for the answer until its request times
    // out.
    const silent = request.op !== "bye" && this.#bad(0.2);
    if (silent && this.#random.chance(0.5)) this.#late.push(reply);
    if (silent) return;
    if (this.#bad(0.1)) {
      channel.close();
      this.#channels.delete(channel);
      return;
    }
    this.#send(channel, reply);
    if (this.#bad(0.2)) this.#send(channel, reply);
    if (this.#bad(0.1))
      this.#send(channel, this.#replyTo({ ...request, id: request.id + this.#random.below(3) }));
    if (this.#bad(0.1) && channel.open)
      sendUnchecked(channel.socket, Buffer.alloc(this.#random.pick(ODD_LENGTHS), " "));
  }

  #send(channel: PacketChannel, { bytes, fds }: Reply): void {
    if (!channel.open || bytes.byteLength === 0) return;
    try {
      channel.send(bytes, fds);
    } catch {
      // The client has hung up, which is right after most of these replies.
      channel.close();
      this.#channels.delete(channel);
    }
  }

  #replyTo({ id, op }: Request): Reply {
    const random = this.#random;
    if (op !== "hello" && this.#bad(0.3)) {
      const error = { code: random.pick(REFUSALS), message: "no" };
      return { bytes: this.#spoiled({ v: 1, id, ok: false, error }), fds: this.#fdsFor(undefined) };
    }
    const from = this.#bad(0.1) ? random.pick(Object.keys(results) as Request["op"][]) : op;
    const ofBundle = { object: 1, lease: 3, descriptor: hostBundle(1, INDEX_BYTES) };
    const result: object = random.pick<object>(
      from === "open" ? [...results.open, ofBundle] : results[from],
    );
    const descriptor =
      op === "open" && "descriptor" in result ? (result.descriptor as Descriptor) : undefined;
    const next = !this.listsEnd || this.#bad(0.5) ? "frame" : null;
    const page = op === "list" && "next" in result ? { ...result, next } : result;
    return {
      bytes: this.#spoiled({ v: 1, id, ok: true, result: page }),
      fds: this.#fdsFor(descriptor),
    };
  }

  #spoiled(reply: object): Uint8Array {
    return this.#mutations.next(this.#bad(1) ? 1 : 0, reply);
  }

  #fdsFor(descriptor: Descriptor | undefined): readonly OwnedFd[] {
    const wanted =
      descriptor === undefined ? [] : [this.#memory, this.#index].slice(0, fdsOf(descriptor));
    if (!this.#bad(0.7)) return wanted;
    const pool = [...this.#odd.all, this.#memory, this.#index];
    const count = this.#random.pick([0, 1, 2, wanted.length, wanted.length, 100]);
    return Array.from({ length: count }, () => this.#random.pick(pool));
  }

  /** True with this probability, multiplied by `malice`. */
  #bad(share: number): boolean {
    return this.#random.chance(this.malice * share);
  }
}

const ODD_LENGTHS = [0, 1, limits.messageBytesMax, limits.messageBytesMax + 1];
