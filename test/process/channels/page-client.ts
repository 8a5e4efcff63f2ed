/**
 * The smallest channel client that docs/protocol.md allows, written from that page: a reader that
 * the writer waits for, and a writer of one message. It uses nothing of the library's ring.
 */
import assert from "node:assert/strict";
import { readSync, writeSync } from "node:fs";
import { SharedWords } from "../../../src/gpu/order/shared-words.js";
import { createBell } from "../../../src/os/bell.js";
import { POLLIN, pollFd } from "../../../src/os/file-calls.js";
import { createMemoryFile } from "../../../src/os/memory-file.js";
import type { OwnedFd } from "../../../src/os/owned-fd.js";
import { type Packet, SeqpacketSocket } from "../../../src/os/seqpacket.js";
import { until } from "../../support/until.js";

interface PageReply {
  readonly ok: boolean;
  readonly result: Readonly<Record<string, unknown>>;
  readonly error?: { readonly code: string };
  readonly fds: readonly OwnedFd[];
}

/** Sections "The socket" and "Messages". Sends one request at a time. */
export class PageClient {
  #socket: SeqpacketSocket;
  #lastId = 0;
  #session = 0;

  constructor(socketPath: string) {
    this.#socket = SeqpacketSocket.connect(socketPath);
  }

  async hello(): Promise<void> {
    const client = { version: "1", program: "page-client" };
    const { result } = await this.ask({ op: "hello", client });
    this.#session = Number(result.session);
  }

  /** Section "Coming back", steps 1 to 4. */
  async comeBack(socketPath: string, lease: number, fds: readonly OwnedFd[]): Promise<void> {
    this.#socket.close();
    this.#socket = SeqpacketSocket.connect(socketPath);
    const client = { version: "1", program: "page-client" };
    const resume = { session: this.#session };
    const { result } = await this.ask({ op: "hello", client, resume });
    assert.equal(result.resumed, true);
    assert.equal((await this.ask({ op: "restore", lease }, fds)).ok, true);
    assert.equal((await this.ask({ op: "restored" })).ok, true);
  }

  async ask(fields: object, fds: readonly OwnedFd[] = []): Promise<PageReply> {
    this.#lastId += 1;
    const request = JSON.stringify({ v: 1, id: this.#lastId, ...fields });
    assert.ok(this.#socket.trySend(Buffer.from(request), fds));
    let packet: Packet | undefined;
    await until("the hub replies", () => {
      const received = this.#socket.tryReceive();
      assert.notEqual(received, "end");
      packet = received === "end" ? undefined : received;
      return packet !== undefined;
    });
    assert.ok(packet !== undefined);
    const reply = JSON.parse(Buffer.from(packet.bytes).toString());
    assert.equal(reply.id, this.#lastId);
    return { ok: reply.ok, result: reply.result ?? {}, error: reply.error, fds: packet.fds };
  }

  /** True if the hub's socket is readable. Without a pending request, the hub has then hung up. */
  get hubHungUp(): boolean {
    return pollFd(this.#socket.fd, POLLIN, 0);
  }

  [Symbol.dispose](): void {
    this.#socket.close();
  }
}

/** Words of a mapped memory file, by their offsets in the page's tables. All are seq_cst. */
class Words {
  readonly #file: SharedWords;
  readonly #small: Uint32Array;

  constructor(fd: OwnedFd, access: "read" | "read-write") {
    this.#file = SharedWords.import(fd, undefined, access);
    this.#small = new Uint32Array(this.#file.cpu.buffer);
  }

  load = (at: number): number => Number(Atomics.load(this.#file.cpu, at / 8));
  load32 = (at: number): number => Atomics.load(this.#small, at / 4);
  store = (at: number, value: number): void => {
    Atomics.store(this.#file.cpu, at / 8, BigInt(value));
  };
  store32 = (at: number, value: number): void => {
    Atomics.store(this.#small, at / 4, value);
  };
  close = (): void => this.#file.release();
}

interface PageReaderOptions {
  /** If true, reads the page too literally: stores `released` only for messages. */
  readonly givesBackNothing?: boolean;
}

/** Section "A reader that is waited for", for a channel without meta bytes. */
export class PageReader {
  readonly lease: number;
  /** In the order received, in which the next hub wants them. */
  readonly fds: readonly OwnedFd[];
  missed = 0;
  readonly #slots: number;
  readonly #headerStride: number;
  readonly #control: Words;
  readonly #page: Words;
  readonly #givesBackNothing: boolean;
  #next: number;
  #rung = 0;

  private constructor({ result, fds }: PageReply, options: PageReaderOptions) {
    const { content } = result.descriptor as { content: Record<string, number> };
    this.lease = Number(result.lease);
    this.fds = fds;
    this.#slots = Number(content.slots);
    this.#headerStride = 128 + Math.ceil(Number(content.metaBytesMax) / 64) * 64;
    this.#control = new Words(this.#fd(1), "read");
    this.#page = new Words(this.#fd(3), "read-write");
    this.#givesBackNothing = options.givesBackNothing ?? false;
    this.#next = this.#attach();
  }

  static async open(
    client: PageClient,
    name: string,
    options: PageReaderOptions = {},
  ): Promise<PageReader> {
    const request = { op: "open", name, access: "read", wait: false, role: "reader" };
    const reply = await client.ask(request);
    assert.ok(reply.ok, reply.error?.code);
    return new PageReader(reply, options);
  }

  get state(): number {
    return this.#control.load32(256);
  }

  /** Returns the sequence of the next message, and releases its slot at once. */
  take(): number | undefined {
    for (;;) {
      const at = 5120 + (this.#next % this.#slots) * this.#headerStride;
      const generation = this.#control.load(at);
      const passedOver = this.#control.load(at + 56);
      if (Math.max(generation, passedOver) <= this.#next) return undefined;
      this.#next += 1;
      const isThere = generation === this.#next && (this.#control.load32(at + 44) & 4) === 0;
      if (isThere || !this.#givesBackNothing) this.#giveBack();
      if (isThere) return this.#control.load(at + 8);
      if (generation === this.#next) this.missed += 1;
    }
  }

  /** Section "Sleep", steps 1 and 2. Returns true if the second look found nothing. */
  fallAsleep(): boolean {
    this.#page.store32(16, this.#page.load32(16) + 1);
    const at = 5120 + (this.#next % this.#slots) * this.#headerStride;
    const found = Math.max(this.#control.load(at), this.#control.load(at + 56));
    return found <= this.#next && this.state !== 2 && this.state !== 3;
  }

  /** Returns whether the bell has rung, and resets it. */
  bellRang(): boolean {
    if (!pollFd(this.#fd(4), POLLIN, 0)) return false;
    return readSync(this.#fd(4).number, new Uint8Array(8)) === 8;
  }

  [Symbol.dispose](): void {
    this.#control.close();
    this.#page.close();
    for (const fd of this.fds) fd.close();
  }

  #attach(): number {
    let position = this.#control.load(128);
    this.#page.store32(16, (this.#page.load32(16) + 1) & ~1);
    this.#page.store32(12, 0);
    this.#page.store(192, position);
    this.#page.store(64, position);
    this.#page.store32(8, 1);
    for (;;) {
      const oldest = Math.max(this.#control.load(56), this.#control.load(192) - this.#slots);
      if (position >= oldest) return position;
      position = oldest;
      this.#page.store(192, position);
      this.#page.store(64, position);
    }
  }

  #giveBack(): void {
    this.#page.store(64, this.#next);
    const asleep = this.#control.load32(264);
    if (asleep % 2 === 0 || asleep === this.#rung) return;
    this.#rung = asleep;
    writeSync(this.#fd(2).number, new Uint8Array(BigUint64Array.of(1n).buffer));
  }

  #fd(index: number): OwnedFd {
    const fd = this.fds[index];
    assert.ok(fd !== undefined, `descriptor ${index}`);
    return fd;
  }
}

/** Creates and publishes a channel with one slot of 8 bytes and one seat. */
export async function createByPage(client: PageClient, name: string): Promise<PageWriter> {
  const files = [
    createMemoryFile("slots", 8),
    createMemoryFile("control", 5120 + 128),
    createBell(),
    createMemoryFile("page", 4096),
    createBell(),
  ] as const;
  const control = new Words(files[1], "read-write");
  const small = { 0: 0x43504943, 4: 0x4e414843, 8: 1, 12: 1, 16: 1, 24: 8, 32: 8, 40: 5120 };
  for (const [at, value] of Object.entries({ ...small, 44: 128, 52: 1, 256: 1 }))
    control.store32(Number(at), value);
  const descriptor = {
    version: 1,
    device: { kind: "host" },
    mechanism: "memfd",
    byteLength: 8,
    allocationByteLength: 8,
    content: {
      kind: "channel",
      dtype: "uint8",
      shape: [8],
      slots: 1,
      readersMax: 1,
      slotBytes: 8,
      slotStride: 8,
      metaBytesMax: 0,
      whenFull: "wait",
      whenWriterGone: "wait",
    },
  };
  const created = await client.ask({ op: "create", name, lifetime: "held", descriptor }, files);
  assert.ok(created.ok, created.error?.code);
  const published = await client.ask({ op: "publish", object: created.result.object });
  assert.ok(published.ok, published.error?.code);
  return new PageWriter(control, files, Number(created.result.lease));
}

class PageWriter {
  readonly lease: number;
  readonly #control: Words;
  readonly #files: readonly OwnedFd[];

  constructor(control: Words, files: readonly OwnedFd[], lease: number) {
    this.lease = lease;
    this.#control = control;
    this.#files = files;
  }

  /** Commits a first message of 8 bytes whose data a stream has not written yet. */
  commitUnfinished(): void {
    this.#control.store(192, 1);
    this.#control.store(5120 + 24, 8);
    this.#control.store(5120 + 32, 1);
    this.#control.store(5120, 1);
    this.#control.store(208, 1);
    this.#control.store(128, 1);
  }

  [Symbol.dispose](): void {
    this.#control.close();
    for (const fd of this.#files) fd.close();
  }
}
