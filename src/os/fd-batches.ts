/**
 * Any number of messages of any length with any number of descriptors each, in order, from one process to another over a SEQPACKET
 * socket on which nothing else is under way. All or nothing for the receiver. The layout of the packets is in batch-layout.ts.
 *
 * The kernel counts the descriptors of a user that were sent and not yet received, and refuses more (ETOOMANYREFS) once they are over
 * what a process may have open. So one packet's worth of them is under way at most: before more, the receiver is asked to answer.
 */
import type { Deadline } from "../base/deadline.js";
import { CudaIpcError, SystemError } from "../base/errors.js";
import { limits } from "../base/limits.js";
import { retryPause } from "../base/retry-pause.js";
import { releaseAll } from "../base/scope.js";
import { BatchCollector, type BatchLimits } from "./batch-collector.js";
import { ACK, ASK, type BatchItem, END, itemPackets, kindOf } from "./batch-layout.js";
import type { OwnedFd } from "./owned-fd.js";
import { PacketChannel } from "./packet-channel.js";
import type { Packet, SeqpacketSocket } from "./seqpacket.js";
import { errnos } from "./system-error.js";

/**
 * Sends all items, and returns once the receiver has them all. The descriptors stay the caller's. So does the socket, which can be used
 * for what comes next; it is closed where this fails.
 * @throws PEER_GONE where the receiver hung up, which it does where it refuses something; INVALID_MESSAGE, TIMEOUT, ABORTED
 */
export async function sendBatches(
  socket: SeqpacketSocket,
  items: Iterable<BatchItem>,
  deadline: Deadline,
): Promise<void> {
  let sender: BatchSender | undefined;
  try {
    sender = new BatchSender(socket, deadline);
    for (const item of items) {
      for (const { bytes, fds } of itemPackets(item)) await sender.send(bytes, fds);
    }
    await sender.end();
  } catch (error) {
    releaseAll([() => sender?.close(), () => socket.close()]);
    // The end of the other side says more than what then failed here.
    throw sender?.ended ?? error;
  }
}

/**
 * Receives what one call of `sendBatches` sends; the descriptors are the caller's from then on. The socket stays the caller's and can
 * be used for what comes next. Where this fails, it is closed, and so is every descriptor that had come.
 * @throws PEER_GONE where the sender hung up before its end; INVALID_MESSAGE, LIMIT_EXCEEDED, TOO_MANY_FDS, TIMEOUT, ABORTED
 */
export async function receiveBatches(
  socket: SeqpacketSocket,
  deadline: Deadline,
  batchLimits: BatchLimits = { fdsMax: limits.batchFdsMax, bytesMax: limits.batchBytesMax },
): Promise<BatchItem[]> {
  const collector = new BatchCollector(batchLimits);
  let channel: PacketChannel | undefined;
  try {
    const complete = new Promise<void>((resolve, reject) => {
      const opened = new PacketChannel(socket, {
        onPacket: (packet) => {
          const answer = collector.take(packet);
          if (answer === "end") opened.pause();
          if (answer !== undefined) opened.send(ACK);
          if (answer === "end") resolve();
        },
        onEnd: (reason) => reject(reason ?? hungUp("receive all descriptors")),
      });
      channel = opened;
    });
    await deadline.race(complete, () => {});
    await channel?.drained(deadline);
    channel?.takeOver();
    return collector.handOver();
  } catch (error) {
    releaseAll([() => channel?.close(), () => socket.close(), () => collector.close()]);
    throw error;
  }
}

class BatchSender {
  readonly #channel: PacketChannel;
  readonly #deadline: Deadline;
  /** Descriptors that were sent and of which the receiver has not said that it has them. */
  #underWay = 0;
  #answer: { resolve(): void; reject(reason: unknown): void } | undefined;
  #ended: unknown;

  constructor(socket: SeqpacketSocket, deadline: Deadline) {
    this.#deadline = deadline;
    this.#channel = new PacketChannel(socket, {
      onPacket: (packet) => this.#onPacket(packet),
      onEnd: (reason) => {
        this.#ended = reason ?? hungUp("send all descriptors");
        this.#answer?.reject(this.#ended);
      },
    });
  }

  async send(bytes: Uint8Array, fds: readonly OwnedFd[]): Promise<void> {
    if (this.#underWay + fds.length > limits.scmRightsFdsMax) {
      await this.#ask(ASK);
      this.#underWay = 0;
    }
    await this.#put(bytes, fds);
    this.#underWay += fds.length;
  }

  /** Waits until the receiver has everything, and lets go of the socket with whatever it says then. */
  async end(): Promise<void> {
    await this.#ask(END);
    this.#channel.takeOver();
  }

  /** Why the channel ended by itself. */
  get ended(): unknown {
    return this.#ended;
  }

  close(): void {
    this.#channel.close();
  }

  async #put(bytes: Uint8Array, fds: readonly OwnedFd[]): Promise<void> {
    for (;;) {
      await this.#channel.drained(this.#deadline);
      this.#deadline.check();
      try {
        this.#channel.send(bytes, fds);
        return;
      } catch (error) {
        // Others of this user have as many under way, and nothing tells when they are received.
        if (!(error instanceof SystemError) || error.errno !== errnos.ETOOMANYREFS) throw error;
      }
      await retryPause(this.#deadline);
    }
  }

  async #ask(question: Uint8Array): Promise<void> {
    this.#channel.resume();
    await this.#put(question, []);
    // WHY only now: nothing can have arrived since, and a promise made earlier could fail without anybody waiting for it.
    const answer = new Promise<void>((resolve, reject) => {
      this.#answer = { resolve, reject };
    });
    await this.#deadline.race(answer, () => {});
  }

  #onPacket({ bytes, fds, damage }: Packet): void {
    releaseAll(fds.map((fd) => () => fd.close()));
    const answer = this.#answer;
    if (damage !== undefined || fds.length > 0 || kindOf(bytes) !== "ack" || answer === undefined) {
      throw new CudaIpcError("INVALID_MESSAGE", "Cannot send all descriptors: the receiver said what it was not asked");
    }
    this.#answer = undefined;
    // WHY: after the last answer comes what is none of this sender's business.
    this.#channel.pause();
    answer.resolve();
  }
}

function hungUp(attempt: string): CudaIpcError {
  return new CudaIpcError("PEER_GONE", `Cannot ${attempt}: the other side hung up before the end`);
}
