/** One process that writes words for the hub (words-main.ts). */
import { type CudaIpcError, hasCode } from "../../base/errors.js";
import type { OwnedFd } from "../../os/owned-fd.js";
import { processState } from "../../os/process-identity.js";
import { HubChild } from "../child/hub-child.js";
import type { WordOrder } from "./file-words.js";
import { encodeOrder, failureIn } from "./word-messages.js";

export interface WriterEvents {
  /** The oldest order without an answer is done. */
  onAnswer(failure: CudaIpcError | undefined): void;
  /** The process has ended. It carries out nothing any more. */
  onGone(reason: unknown): void;
}

export interface WordWriter {
  /** False until its process runs. It takes orders before, too. */
  readonly ready: boolean;
  /** Whether somebody stopped its process (SIGSTOP, or a debugger). */
  readonly isStopped: boolean;
  /** @throws what `PacketChannel.send` throws, but nothing if the process is gone */
  give(file: OwnedFd, order: WordOrder): void;
  kill(): void;
  /** Hangs up, without events. The process ends once it has written what it was given. */
  close(): void;
}

export class WriterProcess implements WordWriter {
  readonly #child: HubChild;
  readonly #events: WriterEvents;
  #failed = false;
  #reason: unknown;
  #exited = false;
  #open = true;

  /** @throws as `HubChild` */
  constructor(events: WriterEvents) {
    this.#events = events;
    this.#child = new HubChild("hub/words/words-main.js", {
      onReady: () => {},
      onPacket: ({ bytes }) => events.onAnswer(failureIn(bytes)),
      onFailure: (reason) => this.#fail(reason),
      onExit: () => {
        this.#exited = true;
        this.#endIfGone();
      },
    });
  }

  get ready(): boolean {
    return this.#child.ready;
  }

  get isStopped(): boolean {
    const { pid } = this.#child;
    return pid !== undefined && (processState(pid)?.startsWith("is stopped") ?? false);
  }

  give(file: OwnedFd, order: WordOrder): void {
    // Its end gives the order to another one.
    if (!this.#child.open) return;
    try {
      this.#child.send(encodeOrder(order), [file]);
    } catch (error) {
      if (!hasCode(error, "PEER_GONE")) throw error;
    }
  }

  kill(): void {
    this.#child.kill();
  }

  close(): void {
    this.#open = false;
    this.#child.close();
  }

  #fail(reason: unknown): void {
    this.#reason ??= reason;
    this.#failed = true;
    // It must not go on with orders that another process gets.
    this.#child.kill();
    this.#endIfGone();
  }

  /** WHY both: the reason of a process that ended at once comes after its end. */
  #endIfGone(): void {
    if (!this.#open || !this.#failed || !this.#exited) return;
    this.close();
    this.#events.onGone(this.#reason);
  }
}
