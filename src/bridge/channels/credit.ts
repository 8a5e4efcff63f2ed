/** How many messages the other side of a link still wants of one read. */
import { CudaIpcError } from "../../base/errors.js";

export class Credit {
  readonly #most: number;
  #left: number;
  #isOpen = true;
  #wake = () => {};

  /** @param most that there may be at a time */
  constructor(count: number, most: number) {
    this.#left = count;
    this.#most = most;
  }

  /** @throws LIMIT_EXCEEDED */
  add(count: number): void {
    if (this.#left + count > this.#most) {
      const found = `${this.#left + count} are asked for, the limit is ${this.#most}`;
      throw new CudaIpcError("LIMIT_EXCEEDED", `Cannot send messages of a channel: ${found}`);
    }
    this.#left += count;
    this.#wake();
  }

  tryTake(): boolean {
    if (this.#left === 0) return false;
    this.#left -= 1;
    return true;
  }

  /** Waits until one may be taken. @throws CLOSED */
  async take(): Promise<void> {
    while (!this.tryTake()) {
      if (!this.#isOpen)
        throw new CudaIpcError("CLOSED", "Cannot send messages of a channel: it was left");
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  close(): void {
    this.#isOpen = false;
    this.#wake();
  }
}
