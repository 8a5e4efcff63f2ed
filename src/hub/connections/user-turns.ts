/**
 * Shares the time of the event loop among users. In each turn of the loop every user gets the same
 * measured time, and the rest of its work waits for the next turn. So one user's work costs the
 * others at most one slice a turn.
 */

export interface Job {
  /** Does a little work. Returns true if there is more, which runs after this user's other jobs. */
  step(): boolean;
}

interface User {
  /** Jobs with work to do, in the order of their turns. */
  readonly jobs: Set<Job>;
  usedMs: number;
}

/** The most that one user costs another in a turn. Shorter turns would only poll more. */
const SLICE_MS = 0.5;
/**
 * The most time that a user owes after a long message. A process that did not run for a while is
 * not the user's fault, and this is wall-clock time. Such a debt delays the user only while others
 * work, because a turn without work is short.
 */
const DEBT_MAX_MS = 100 * SLICE_MS;

export class UserTurns {
  /** Users that have used time in this turn, or have work to do. */
  readonly #users = new Map<number, User>();
  readonly #waiting = new Set<User>();
  readonly #nowMs: () => number;
  readonly #log: (error: unknown) => void;
  #usedMost = 0;
  #running = false;
  #nextTurn: NodeJS.Immediate | undefined;

  /** @param log called with what a job throws; that job then has no more work */
  constructor(log: (error: unknown) => void, nowMs = () => performance.now()) {
    this.#log = log;
    this.#nowMs = nowMs;
  }

  /** The job has work. Runs it at once if its user has time left in this turn. */
  ready(uid: number, job: Job): void {
    const user = this.#userOf(uid);
    user.jobs.add(job);
    this.#waiting.add(user);
    if (!this.#running) this.#run();
  }

  /** Charges time that the user used outside of its turns. */
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
      // A job of one user may have made work for a user that had its turn already.
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
   * Whether this turn must end: a user waits, or has used half of its time. WHY not after each
   * message: ending a turn is another round of the event loop. `usedMs` stays until then, so nobody
   * gains time.
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
