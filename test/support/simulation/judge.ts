/**
 * Compares what the hub said in one event with what it had to say, in order. Also checks that no
 * hub of a run gives a number twice.
 */
import assert from "node:assert/strict";
import type { ConnectionId } from "../../../src/hub/core/ports.js";
import { ChangeWaits } from "./change-waits.js";
import type { Refusal } from "./tally.js";
import type { Held, SentReply, World } from "./world.js";

export class Judge {
  readonly #world: World;
  #next = 0;
  /** The largest number that any hub has given. */
  lastId = 0;
  readonly changeWaits = new ChangeWaits();
  /** What the core had to do beside its replies. */
  readonly hangUps: ConnectionId[] = [];
  readonly forgets: ConnectionId[] = [];
  readonly pauses: { readonly connection: ConnectionId; readonly milliseconds: number }[] = [];
  stops = 0;
  restarts = 0;

  constructor(world: World) {
    this.#world = world;
  }

  beginEvent(): void {
    this.#next = 0;
    this.hangUps.length = 0;
    this.forgets.length = 0;
    this.pauses.length = 0;
    this.stops = 0;
    this.restarts = 0;
  }

  /** Checks that the next reply is a success, with this number of descriptors. */
  ok(
    connection: ConnectionId,
    id: number,
    fdCount = 0,
  ): { readonly result: Record<string, unknown>; readonly fds: readonly Held[] } {
    const { reply, fds } = this.#take(connection, id, "ok");
    assert.ok(reply.ok, `wanted ok, found ${JSON.stringify(reply)}`);
    assert.equal(fds.length, fdCount);
    return { result: reply.result as Record<string, unknown>, fds };
  }

  /** Checks that the next reply is this error. */
  fails(connection: ConnectionId, id: number, code: string, refusal?: Refusal): void {
    const { reply, fds } = this.#take(connection, id, code);
    assert.ok(!reply.ok, `wanted ${code}, found ok: ${JSON.stringify(reply)}`);
    const { error } = reply;
    const asWanted =
      error.code === code &&
      error.message.includes(refusal?.limit ?? "") &&
      error.message.includes(refusal?.found ?? "");
    assert.ok(
      asWanted,
      `wanted ${code} ${JSON.stringify(refusal)}, found ${JSON.stringify(error)}`,
    );
    assert.equal(fds.length, 0);
  }

  /** Whether a reply to this request is among those that were not taken yet. */
  hasReply(connection: ConnectionId, id: number): boolean {
    // The request may have ended an earlier wait, whose reply then comes first.
    this.#skipEndsOfWaits();
    const left = this.#world.replies.slice(this.#next);
    return left.some((sent) => sent.connection === connection && sent.reply.id === id);
  }

  /** Checks a number that the hub has just given. */
  fresh(value: unknown): number {
    assert.ok(
      typeof value === "number" && value > this.lastId,
      `number ${String(value)} is larger than ${this.lastId}`,
    );
    this.lastId = value;
    return value;
  }

  /** Checks that the hub did nothing else. */
  done(): void {
    const world = this.#world;
    const extra = this.#nextReply();
    if (extra !== undefined) assert.fail(`an unexpected reply: ${JSON.stringify(extra)}`);
    same("hang-ups", world.hungUp, this.hangUps);
    same("connections to forget", world.forgotten, this.forgets);
    if (world.paused.length > 0 || this.pauses.length > 0)
      assert.deepEqual(world.paused, this.pauses);
    if (world.stops !== this.stops) assert.fail(`stops: ${world.stops}, wanted ${this.stops}`);
    if (world.restarts !== this.restarts)
      assert.fail(`restarts: ${world.restarts}, wanted ${this.restarts}`);
  }

  #nextReply(): SentReply | undefined {
    this.#skipEndsOfWaits();
    this.#next += 1;
    return this.#world.replies[this.#next - 1];
  }

  /** Replies that end waits for changes may come before and between the others. */
  #skipEndsOfWaits(): void {
    const { replies } = this.#world;
    for (let sent = replies[this.#next]; sent !== undefined; sent = replies[this.#next]) {
      if (!this.changeWaits.ends(sent)) return;
      this.#next += 1;
    }
  }

  #take(connection: ConnectionId, id: number, wanted: string): SentReply {
    const sent = this.#nextReply();
    if (sent === undefined || sent.connection !== connection || sent.reply.id !== id) {
      assert.fail(
        `wanted ${wanted} for request ${id} of connection ${connection}, found ${JSON.stringify(sent)}`,
      );
    }
    return sent;
  }
}

function same(what: string, found: readonly number[], wanted: readonly number[]): void {
  if (found.length === 0 && wanted.length === 0) return;
  assert.deepEqual(found, wanted, what);
}
