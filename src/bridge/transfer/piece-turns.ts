/**
 * Limits the pieces that one link sends at a time. A piece holds a lane of its device until the
 * other machine has taken it, and a machine that takes nothing is noticed only after a while.
 */
import { laneCountMax } from "../../gpu/transfer/lanes.js";

export class PieceTurns {
  #underWay = 0;
  readonly #waiting: (() => void)[] = [];

  /** Half of the lanes of a device: the other half is for other machines and for copies. */
  static get most(): number {
    return Math.floor(laneCountMax() / 2);
  }

  /** Runs the work when fewer pieces are under way. `linkCallsMax` limits those that wait. */
  async run<T>(work: () => Promise<T>): Promise<T> {
    if (this.#underWay < PieceTurns.most) this.#underWay += 1;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    try {
      return await work();
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#underWay -= 1;
      else next();
    }
  }
}
