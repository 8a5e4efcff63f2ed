/** A resource with several users, which ends after the last of them. */
import { CudaIpcError } from "./errors.js";

export abstract class RefCounted {
  #users = 1;

  /** The kind of resource, in the words of an error message. */
  protected abstract get countedAs(): string;

  /** Ends the resource. Called once, after the last user. */
  protected abstract onLastRelease(): void;

  /** @throws CLOSED after the last user */
  checkInUse(): void {
    if (this.#users === 0) {
      const what = this.countedAs;
      throw new CudaIpcError("CLOSED", `Cannot use ${what}: it was released by its last user`);
    }
  }

  /** Adds a user, which calls `release` once. The first user is the creator. */
  retain(): this {
    this.checkInUse();
    this.#users += 1;
    return this;
  }

  release(): void {
    this.#users -= 1;
    if (this.#users === 0) this.onLastRelease();
  }
}
