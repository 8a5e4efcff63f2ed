/** A client that creates and opens channels with all their descriptors, but passes no messages. */
import assert from "node:assert/strict";
import { readSync } from "node:fs";
import { Deadline } from "../../src/base/deadline.js";
import { duplicates } from "../../src/client/connection/held-leases.js";
import { HubLink, type Reconnected } from "../../src/client/connection/hub-link.js";
import { type HubTarget, tryConnect } from "../../src/client/connection/reach-hub.js";
import { Devices } from "../../src/client/devices.js";
import type { CreateOptions } from "../../src/client/hub-options.js";
import { HubObjects } from "../../src/client/objects/hub-objects.js";
import type { OpenedChannel } from "../../src/client/objects/opened-channel.js";
import type { SharedHandle } from "../../src/client/objects/shared-object.js";
import { createBell } from "../../src/os/bell.js";
import { readFilePart, writeFilePart } from "../../src/os/file-calls.js";
import { closeFds } from "../../src/os/foreign-fd.js";
import { createMemoryFile } from "../../src/os/memory-file.js";
import type { OwnedFd } from "../../src/os/owned-fd.js";
import { ownUid } from "../../src/os/runtime-folder.js";
import { channelFdsAt, readerFdsAt } from "../../src/ring/channel-fds.js";
import { controlByteLength, memorySlots, PAGE_BYTES } from "../../src/ring/channel-layout.js";
import type { ChannelContent, ChannelRole } from "../../src/wire/channel-content.js";
import type { ObjectSummary, ResultOf } from "../../src/wire/messages.js";
import { channelOf } from "./messages.js";
import { soon } from "./until.js";

/** A channel that this client created or opened. It owns duplicates of its descriptors. */
export class HeldChannel {
  readonly fds: readonly OwnedFd[];
  readonly role: ChannelRole;
  readonly seat: number | undefined;
  readonly lease: number;
  readonly content: ChannelContent;
  #handle: SharedHandle | undefined;

  constructor(facts: Pick<OpenedChannel, "role" | "seat" | "lease" | "content" | "fds">) {
    this.fds = duplicates(facts.fds);
    this.role = facts.role;
    this.seat = facts.seat;
    this.lease = facts.lease;
    this.content = facts.content;
  }

  heldBy(handle: SharedHandle): void {
    this.#handle = handle;
  }

  get control(): OwnedFd {
    return this.#at(this.role === "observer" ? 0 : channelFdsAt.control);
  }

  get roomBell(): OwnedFd {
    return this.#at(channelFdsAt.roomBell);
  }

  page(seat = this.seat ?? 0): OwnedFd {
    if (this.role === "observer") return this.#at(1 + seat);
    return this.#at(this.role === "reader" ? readerFdsAt.page : channelFdsAt.page(seat));
  }

  bell(seat = this.seat ?? 0): OwnedFd {
    return this.#at(this.role === "reader" ? readerFdsAt.bell : channelFdsAt.bell(seat));
  }

  #at(index: number): OwnedFd {
    const fd = this.fds[index];
    assert.ok(fd !== undefined, `descriptor ${index}`);
    return fd;
  }

  close(): void {
    if (this.fds.some(({ closed }) => closed)) return;
    closeFds(this.fds);
    this.#handle?.close();
  }

  [Symbol.dispose](): void {
    this.close();
  }
}

export class ChannelClient {
  readonly link: HubLink;
  readonly objects: HubObjects;
  readonly #devices = new Devices("host");

  private constructor(link: HubLink) {
    this.link = link;
    this.objects = new HubObjects(link, this.#devices, () => {});
  }

  static async connect(socketPath: string, start = false): Promise<ChannelClient> {
    const trusted = new Set([ownUid(), 0]);
    const target: HubTarget = {
      socketPath,
      program: "channels",
      trusted,
      start,
      hubIdleMs: 60_000,
    };
    const connection = await tryConnect(target, { deadline: new Deadline("connect", {}, 30_000) });
    assert.ok(connection !== undefined, "a hub listens");
    return new ChannelClient(
      new HubLink(connection, target, { reconnect: true, reconnectTimeoutMs: 30_000 }),
    );
  }

  /** Creates and publishes a channel, as its writer. */
  async create(
    name: string,
    changes: Partial<ChannelContent> = {},
    options: CreateOptions = {},
  ): Promise<HeldChannel> {
    const descriptor = channelOf(changes);
    const { content } = descriptor;
    const fds = channelFiles(content);
    try {
      const kept = duplicates(fds);
      const memory = { bring: () => duplicates(kept), close: () => closeFds(kept) };
      const facts = await this.objects.register(name, descriptor, memory, options);
      const channel = new HeldChannel({
        role: "writer",
        seat: undefined,
        lease: facts.lease,
        content,
        fds,
      });
      const handle = this.objects.handles.track(facts, () => channel.close());
      channel.heldBy(handle);
      await handle.publish({});
      return channel;
    } finally {
      closeFds(fds);
    }
  }

  open(name: string, role: ChannelRole, wait = false): Promise<HeldChannel> {
    return this.objects.openChannel(name, role, { wait }, (opened) => {
      const channel = new HeldChannel(opened);
      channel.heldBy(this.objects.handles.track(opened, () => channel.close()));
      return channel;
    });
  }

  inspect(name: string): Promise<ResultOf<"inspect">> {
    return this.link.request("inspect", { name }, new Deadline("inspect", {}, 30_000));
  }

  async list(): Promise<ObjectSummary[]> {
    return (await this.link.request("list", {}, new Deadline("list", {}, 30_000))).objects;
  }

  reconnected(): Promise<Reconnected> {
    return soon("it reconnects", new Promise((resolve) => this.link.onReconnect(resolve)));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.objects.handles.close();
    await this.link.close();
    this.#devices.close();
  }
}

/** Creates the files of one channel, in order. The caller owns them. */
export function channelFiles(content: ChannelContent): OwnedFd[] {
  const seats = Array.from({ length: content.readersMax }, () => [
    createMemoryFile("page", PAGE_BYTES),
    createBell(),
  ]);
  const data = createMemoryFile("slots", memorySlots(content) * content.slotStride);
  return [
    data,
    createMemoryFile("control", controlByteLength(content)),
    createBell(),
    ...seats.flat(),
  ];
}

/** Whether the bell has rung since the last call. */
export function hasRung(bell: OwnedFd): boolean {
  try {
    return readSync(bell.number, new Uint8Array(8)) === 8;
  } catch (error) {
    assert.equal((error as NodeJS.ErrnoException).code, "EAGAIN");
    return false;
  }
}

export function word(file: OwnedFd, byteOffset: number): bigint {
  const words = new BigInt64Array(1);
  readFilePart(file, new Uint8Array(words.buffer), byteOffset);
  return words[0] as bigint;
}

export function smallWord(file: OwnedFd, byteOffset: number): number {
  const words = new Uint32Array(1);
  readFilePart(file, new Uint8Array(words.buffer), byteOffset);
  return words[0] as number;
}

export function writeWord(file: OwnedFd, byteOffset: number, value: bigint): void {
  writeFilePart(file, new Uint8Array(BigInt64Array.of(value).buffer), byteOffset);
}

export function writeSmallWord(file: OwnedFd, byteOffset: number, value: number): void {
  writeFilePart(file, new Uint8Array(Uint32Array.of(value).buffer), byteOffset);
}
