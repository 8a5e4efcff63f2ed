/**
 * The hub's writes into shared memory when leases begin and end. A timeline and the mark of legacy
 * memory end with their owner, a reader of a channel gets and leaves its seat, and a channel loses
 * its writer. The hub then rings the bells of everybody who may wait for it.
 */
import { releaseAll } from "../../base/scope.js";
import { channelFdsAt } from "../../ring/channel-fds.js";
import type { HubPorts } from "../core/ports.js";
import {
  freeSeats,
  hasEndWord,
  isAwaited,
  isHeld,
  type Lease,
  type ReaderParts,
  type SharedObject,
  withoutWriter,
} from "./shared-object.js";

export type WordsPorts<Fd> = Pick<
  HubPorts<Fd>,
  "endTimeline" | "awaitOwner" | "beginSeat" | "endSeat" | "endWriter" | "ringBell" | "closeFd"
>;

export class WordsInMemory<Fd> {
  readonly #ports: WordsPorts<Fd>;

  constructor(ports: WordsPorts<Fd>) {
    this.#ports = ports;
  }

  /** Gives a reader its seat. Throws if the hub cannot write the reader's page. */
  begin({ id, object, seat }: Lease<Fd>): void {
    const page = seat === undefined ? undefined : object.memory?.fds[channelFdsAt.page(seat)];
    if (page !== undefined) this.#ports.beginSeat(page, id, object.owner.uid);
  }

  /** Writes the end of a reader whose lease goes on. */
  readerEnded({ object, seat }: Lease<Fd>): void {
    if (seat !== undefined) this.#endSeats(object, [seat]);
  }

  /** Frees the seat of a channel's reader. Other holders have none. */
  holderLeft(lease: Lease<Fd>): void {
    const { object, seat } = lease;
    if (seat !== undefined) this.#endSeats(object, [seat]);
    this.#dropParts(lease);
  }

  /**
   * Ends what its owner ends: a timeline, legacy memory, and a channel of a writer that has gone.
   * Those that wait for their next writer are marked as awaited.
   * @returns whether it had ended before
   */
  ownerLeft(object: SharedObject<Fd>): boolean {
    const { descriptor, memory } = object;
    const { content } = descriptor;
    if (content.kind === "channel") return this.#writerLeft(object, content.readersMax);
    // WHY also through a read-only descriptor: nobody may have brought a writable one back.
    if (hasEndWord(object) && memory !== undefined) {
      const byteOffset = content.kind === "timeline" ? content.byteOffset : 0;
      const { uid } = object.owner;
      if (isAwaited(object)) return !this.#ports.awaitOwner(memory.fds[0], byteOffset, uid);
      this.#ports.endTimeline(memory.fds[0], byteOffset, uid);
    }
    return false;
  }

  /**
   * Writes the missing ends of holders into memory that has come back.
   * @returns whether the writer had closed the channel itself
   */
  settle(object: SharedObject<Fd>): boolean {
    for (const lease of object.leases.values()) this.#dropParts(lease);
    this.#endSeats(object, freeSeats(object));
    return !isHeld(object) && this.ownerLeft(object);
  }

  /** Keeps a reader's descriptors of a channel without memory, to end the channel through them. */
  keepParts(lease: Lease<Fd>, parts: ReaderParts<Fd>): void {
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
    const { uid } = object.owner;
    const isClosed = !this.#ports.endWriter(control, withoutWriter(object), uid);
    for (let seat = 0; seat < readersMax; seat += 1) this.#ring(fds[channelFdsAt.bell(seat)], uid);
    return isClosed;
  }

  #endByParts(lease: Lease<Fd>): void {
    if (lease.parts === undefined) return;
    const { uid } = lease.object.owner;
    this.#ports.endWriter(lease.parts.control, "gone", uid);
    this.#ring(lease.parts.bell, uid);
    this.#dropParts(lease);
  }

  #endSeats({ memory, owner: { uid } }: SharedObject<Fd>, seats: readonly number[]): void {
    if (memory === undefined || seats.length === 0) return;
    for (const seat of seats) {
      const page = memory.fds[channelFdsAt.page(seat)];
      if (page !== undefined) this.#ports.endSeat(page, uid);
    }
    this.#ring(memory.fds[channelFdsAt.roomBell], uid);
  }

  #dropParts(lease: Lease<Fd>): void {
    const parts = partsOf(lease.parts);
    lease.parts = undefined;
    releaseAll(parts.map((fd) => () => this.#ports.closeFd(fd)));
  }

  #ring(bell: Fd | undefined, user: number): void {
    if (bell !== undefined) this.#ports.ringBell(bell, user);
  }
}

export function partsOf<Fd>(parts: ReaderParts<Fd> | undefined): readonly Fd[] {
  return parts === undefined ? [] : [parts.control, parts.bell];
}
