/** Notices that nobody on this machine reads a channel which the bridge writes. */
import { defaults } from "../../base/limits.js";
import type { ChannelWriter } from "../../channel/channel-writer.js";

export class UnreadWatch implements Disposable {
  readonly #writer: Pick<ChannelWriter, "readers">;
  readonly #onUnread: () => void;
  readonly #timer: NodeJS.Timeout;
  #readAtMs = performance.now();

  /** @param onUnread called when nobody has read for `defaults.carriedUnreadMs` or somewhat more */
  constructor(writer: Pick<ChannelWriter, "readers">, onUnread: () => void) {
    this.#writer = writer;
    this.#onUnread = onUnread;
    this.#timer = setInterval(() => this.#look(), defaults.carriedUnreadMs / 2);
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }

  #look(): void {
    const nowMs = performance.now();
    if (this.#writer.readers > 0) this.#readAtMs = nowMs;
    if (nowMs - this.#readAtMs >= defaults.carriedUnreadMs) this.#onUnread();
  }
}
