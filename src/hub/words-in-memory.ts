/**
 * What the hub writes into shared memory as leases begin and end: a timeline ends with its owner, a reader of a channel gets a place and
 * leaves it, a channel has no writer any more. Everybody whom a channel concerns is woken by a bell.
 */
import { releaseAll } from "../base/scope.js";
import { channelFdsAt, readerFdsAt } from "../wire/channel-content.js";
import type { HubPorts } from "./ports.js";
import { freePlaces, isHeld, type Lease, type SharedObject, withoutWriter } from "./shared-object.js";

export type WordsPorts<Fd> = Pick<
  HubPorts<Fd>,
  "endTimeline" | "beginPlace" | "endPlace" | "endWriter" | "ringBell" | "closeFd"
>;

export class WordsInMemory<Fd> {
  readonly #ports: WordsPorts<Fd>;

  constructor(ports: WordsPorts<Fd>) {
    this.#ports = ports;
  }

  /** A reader gets its place. Throws where its page cannot be written. */
  begin({ id, object, place }: Lease<Fd>): void {
    const page = place === undefined ? undefined : object.memory?.fds[channelFdsAt.page(place)];
    if (page !== undefined) this.#ports.beginPlace(page, id);
  }

  /** The holder of a lease is gone; others than readers of a channel have no place. */
  holderLeft(lease: Lease<Fd>): void {
    const { object, place } = lease;
    if (place !== undefined) this.#endPlaces(object, [place]);
    this.#dropParts(lease);
  }

  /** The owner of a timeline or the writer of a channel is gone. True where that one had closed the channel itself. */
  ownerLeft(object: SharedObject<Fd>): boolean {
    const { descriptor, memory } = object;
    const { content } = descriptor;
    if (content.kind === "channel") return this.#writerLeft(object, content.readersMax);
    // WHY whatever the descriptor allows: where it is for reading alone, the system gave none for writing when it was brought back.
    if (content.kind === "timeline" && memory !== undefined) this.#ports.endTimeline(memory.fds[0], content.byteOffset);
    return false;
  }

  /** Ends what nobody holds, in memory that has come back. True where the writer had closed the channel itself. */
  settle(object: SharedObject<Fd>): boolean {
    for (const lease of object.leases.values()) this.#dropParts(lease);
    this.#endPlaces(object, freePlaces(object));
    return !isHeld(object) && this.ownerLeft(object);
  }

  /** What a reader has of a channel without memory, to end the channel by: its writer is gone, or may go before it comes back. */
  keepParts(lease: Lease<Fd>, parts: readonly Fd[]): void {
    this.#dropParts(lease);
    lease.parts = parts;
    if (lease.object.leases.writer === undefined) this.#endByParts(lease);
  }

  #writerLeft(object: SharedObject<Fd>, readersMax: number): boolean {
    const fds = object.memory?.fds;
    const control = fds?.[channelFdsAt.control];
    if (fds === undefined || control === undefined) {
      for (const lease of object.leases.values()) this.#endByParts(lease);
      return false;
    }
    const isClosed = !this.#ports.endWriter(control, withoutWriter(object));
    for (let place = 0; place < readersMax; place += 1) this.#ring(fds[channelFdsAt.bell(place)]);
    return isClosed;
  }

  #endByParts(lease: Lease<Fd>): void {
    const control = lease.parts?.[readerFdsAt.control];
    if (control === undefined) return;
    this.#ports.endWriter(control, "gone");
    this.#ring(lease.parts?.[readerFdsAt.bell]);
    this.#dropParts(lease);
  }

  #endPlaces({ memory }: SharedObject<Fd>, places: readonly number[]): void {
    if (memory === undefined || places.length === 0) return;
    for (const place of places) {
      const page = memory.fds[channelFdsAt.page(place)];
      if (page !== undefined) this.#ports.endPlace(page);
    }
    this.#ring(memory.fds[channelFdsAt.roomBell]);
  }

  #dropParts(lease: Lease<Fd>): void {
    const parts = lease.parts ?? [];
    lease.parts = undefined;
    releaseAll(parts.map((fd) => () => this.#ports.closeFd(fd)));
  }

  #ring(bell: Fd | undefined): void {
    if (bell !== undefined) this.#ports.ringBell(bell);
  }
}
