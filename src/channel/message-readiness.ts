/**
 * Whether the GPU has finished the data of a message, by the timeline of the writer that sent it.
 */
import { lineAt, stateOf } from "../base/timeline-line.js";
import type { Stream } from "../gpu/order/stream.js";
import { ImportedTimeline } from "../gpu/order/timeline.js";
import { flags } from "../ring/channel-layout.js";
import type { TakenMessage } from "../ring/ring-reader.js";
import type { ReaderParts } from "./channel-parts.js";

export class MessageReadiness {
  readonly #parts: Pick<ReaderParts, "label" | "control" | "words">;
  readonly #stream: Stream | undefined;
  /** The timeline of the writer whose message came last. */
  #ready: { readonly epoch: number; readonly timeline: ImportedTimeline } | undefined;

  /** @param stream the reader's stream, which waits instead of the CPU */
  constructor(parts: Pick<ReaderParts, "label" | "control" | "words">, stream: Stream | undefined) {
    this.#parts = parts;
    this.#stream = stream;
  }

  /** `lost` if the writer died before its GPU work was done. */
  of(taken: TakenMessage): "ready" | "pending" | "lost" {
    const ready = this.#timelineOf(taken);
    const { value, ended } = stateOf(lineAt(this.#parts.control.cpu, ready.byteOffset));
    // WHY the flag: 64 writers later the timeline is that of another writer.
    if (value >= BigInt(taken.readyAt)) return this.#isLost(taken) ? "lost" : "ready";
    if (ended) return "lost";
    if (this.#stream === undefined) return "pending";
    this.#stream.wait(ready, taken.readyAt);
    return "ready";
  }

  close(): void {
    this.#ready?.timeline.close();
  }

  /** The next writer has marked the message, before it had a timeline. */
  #isLost({ slot }: TakenMessage): boolean {
    return (this.#parts.words.flags(slot) & flags.lost) !== 0;
  }

  #timelineOf({ epoch }: TakenMessage): ImportedTimeline {
    if (this.#ready?.epoch === epoch) return this.#ready.timeline;
    this.#ready?.timeline.close();
    const { label, control, words } = this.#parts;
    const line = words.readyOffset(epoch);
    const timeline = new ImportedTimeline(`${label}: ready`, control.retain(), line);
    this.#ready = { epoch, timeline };
    return timeline;
  }
}
