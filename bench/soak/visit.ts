/**
 * One connection of a soak client to the hub: the objects that it holds, and how it closes them.
 */
import type { connect } from "../../src/index.js";
import type { Random } from "../random.js";
import type { Tally } from "./tally.js";

export type Member = Awaited<ReturnType<typeof connect>>;

/** Something kept open for a while. */
export interface Held {
  readonly name: string;
  /**
   * Checks the data and says why they are wrong. Undefined if they are right. An owner whose stream
   * fills slots also fills the next one.
   */
  look(): Promise<string | undefined>;
  close(): void | Promise<void>;
}

const HELD_MAX = 12;

export class Visit {
  readonly hub: Member;
  readonly random: Random;
  readonly tally: Tally;
  /** The service that only this process works for. */
  readonly service: string;
  readonly #held: Held[] = [];

  constructor(hub: Member, random: Random, tally: Tally, service: string) {
    this.hub = hub;
    this.random = random;
    this.tally = tally;
    this.service = service;
  }

  /** Takes over what was created or opened. Above a limit, closes something else. */
  async keep(held: Held): Promise<void> {
    this.#held.push(held);
    if (this.#held.length > HELD_MAX) await this.letOneGo();
  }

  async lookAtOne(): Promise<void> {
    if (this.#held.length > 0) await this.look(this.random.pick(this.#held));
  }

  async look(held: Held): Promise<void> {
    const fault = await this.tally.attempt("check", ["PEER_GONE"], async () => held.look());
    if (fault !== undefined) this.tally.fault(`"${held.name}": ${fault}`);
  }

  /**
   * Checks an object and closes it. Whatever others did, even their end, must not have changed it.
   */
  async letOneGo(): Promise<void> {
    const [held] = this.#held.splice(this.random.below(this.#held.length), 1);
    if (held === undefined) return;
    await this.look(held);
    await this.tally.attempt("close", [], () => held.close());
  }

  async end(): Promise<void> {
    while (this.#held.length > 0) await this.letOneGo();
    await this.tally.attempt("leave", [], () => this.hub.close());
  }
}
