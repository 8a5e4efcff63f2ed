/**
 * A client of the hub that is kept for some seconds after its last use, because connecting to the
 * hub and opening a GPU take longer than most of what a page asks. It holds no object meanwhile.
 */
import { hasCode } from "../../base/errors.js";
import { connect } from "../../client/connect.js";
import type { Hub } from "../../client/hub.js";

const KEPT_MS = 10_000;

export class KeptHub {
  readonly #socket: string | undefined;
  readonly #keptMs: number;
  #hub: Hub | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(socket: string | undefined, keptMs = KEPT_MS) {
    this.#socket = socket;
    this.#keptMs = keptMs;
  }

  /** One use at a time. @throws what `connect` and the work throw */
  async use<T>(signal: AbortSignal, work: (hub: Hub) => Promise<T>): Promise<T> {
    clearTimeout(this.#timer);
    const wasKept = this.#hub !== undefined;
    try {
      return await work(await this.#connected(signal));
    } catch (error) {
      await this.close();
      // Another hub may serve the socket by now.
      if (wasKept && hasCode(error, "HUB_GONE")) return await work(await this.#connected(signal));
      throw error;
    } finally {
      if (this.#hub !== undefined) this.#timer = setTimeout(() => void this.close(), this.#keptMs);
    }
  }

  async close(): Promise<void> {
    clearTimeout(this.#timer);
    const hub = this.#hub;
    this.#hub = undefined;
    await hub?.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #connected(signal: AbortSignal): Promise<Hub> {
    this.#hub ??= await connect({
      socket: this.#socket,
      program: "cuda-ipc dashboard",
      start: false,
      reconnect: false,
      signal,
    });
    return this.#hub;
  }
}
