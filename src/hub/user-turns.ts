/**
 * Shares the time of the event loop among users. In each turn of the loop every user gets as much measured time as every other, and what
 * is left over waits for the next turn. What one user asks for costs the others a slice a turn at most, however much it is.
 */

export interface Job {
  /** Does a little. True if there is more, which is done when this user's other jobs have had their turn. */
  step(): boolean;
}

interface User {
  /** Those that have something to do, in the order in which they take turns. */
  readonly jobs: Set<Job>;
  usedMs: number;
}

/** The most that one user costs another in a turn. WHY no less: shorter turns would spend their time on polling. */
const SLICE_MS = 0.5;
/**
 * What is carried over of a message that took longer. WHY so little: time is measured on the wall, and a process that did not run for a
 * while is not the user's fault.
 */
const DEBT_MAX_MS = 6 * SLICE_MS;

export class UserTurns {
  /** Those who have used some of their time in this turn, or have something to do. */
  readonly #users = new Map<number, User>();
  readonly #waiting = new Set<User>();
  readonly #nowMs: () => number;
  readonly #log: (error: unknown) => void;
  /** The largest `usedMs` of all users. */
  #usedMost = 0;
  #running = false;
  #nextTurn: NodeJS.Immediate | undefined;

  /** @param log takes what a job throws, which then has no more to do */
  constructor(log: (error: unknown) => void, nowMs = () => performance.now()) {
    this.#log = log;
    this.#nowMs = nowMs;
  }

  /** The job has something to do: at once where its user has time left in this turn. */
  ready(uid: number, job: Job): void {
    const user = this.#userOf(uid);
    user.jobs.add(job);
    this.#waiting.add(user);
    if (!this.#running) this.#run();
  }

  /** The user has used so much time outside of its turns, which it does not get in them. */
  charge(uid: number, milliseconds: number): void {
    const user = this.#userOf(uid);
    user.usedMs += milliseconds;
    this.#usedMost = Math.max(this.#usedMost, user.usedMs);
    this.#planTurn();
  }

  close(): void {
    this.#users.clear();
    this.#waiting.clear();
    clearImmediate(this.#nextTurn);
    this.#nextTurn = undefined;
  }

  #run(): void {
    this.#running = true;
    try {
      // WHY again and again: a job of one user may have made work for one that had its turn already.
      for (let served = true; served; ) {
        served = false;
        for (const user of this.#waiting) if (this.#serve(user)) served = true;
      }
    } finally {
      this.#running = false;
    }
    this.#planTurn();
  }

  #planTurn(): void {
    if (this.#isBusy()) this.#nextTurn ??= setImmediate(() => this.#beginTurn());
  }

  #userOf(uid: number): User {
    let user = this.#users.get(uid);
    if (user === undefined) {
      user = { jobs: new Set(), usedMs: 0 };
      this.#users.set(uid, user);
    }
    return user;
  }

  /**
   * Whether this turn has to end: a user waits, or has used half of the time. WHY not after each message: the end of a turn is another
   * round of the event loop. Until then `usedMs` stays as it is, so nobody gets more time by it.
   */
  #isBusy(): boolean {
    return this.#waiting.size > 0 || this.#usedMost > SLICE_MS / 2;
  }

  #serve(user: User): boolean {
    if (user.usedMs >= SLICE_MS) return false;
    let before = this.#nowMs();
    for (const job of user.jobs) {
      user.jobs.delete(job);
      if (this.#step(job)) user.jobs.add(job);
      const after = this.#nowMs();
      user.usedMs += after - before;
      before = after;
      if (user.usedMs >= SLICE_MS) break;
    }
    if (user.jobs.size === 0) this.#waiting.delete(user);
    this.#usedMost = Math.max(this.#usedMost, user.usedMs);
    return true;
  }

  #step(job: Job): boolean {
    try {
      return job.step();
    } catch (error) {
      this.#log(error);
      return false;
    }
  }

  #beginTurn(): void {
    this.#nextTurn = undefined;
    this.#usedMost = 0;
    for (const [uid, user] of this.#users) {
      user.usedMs = Math.min(DEBT_MAX_MS, Math.max(0, user.usedMs - SLICE_MS));
      this.#usedMost = Math.max(this.#usedMost, user.usedMs);
      if (user.jobs.size === 0 && user.usedMs === 0) this.#users.delete(uid);
    }
    this.#run();
  }
}
