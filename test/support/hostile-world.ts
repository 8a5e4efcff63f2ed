/**
 * The hub's core with four good sessions and a hostile one. After each hostile message the core may
 * answer or disconnect only the hostile session. Each descriptor has one owner, and the good
 * sessions are unchanged.
 */
import assert from "node:assert/strict";
import { isErrorCode } from "../../src/base/error-codes.js";
import { CudaIpcError } from "../../src/base/errors.js";
import { decodeRequest } from "../../src/wire/codec.js";
import type { Request, ResultOf } from "../../src/wire/messages.js";
import { type Answered, CoreRig, peerOf } from "./core-rig.js";
import {
  checkTimelines,
  fdsOf,
  forgetAnswers,
  GOOD_SESSIONS,
  type GoodObject,
  OBSERVER,
  PRODUCER,
  pidOf,
  READER,
  SHARES,
  type Share,
  WAITER,
} from "./good-sessions.js";
import type { Vocabulary } from "./message-mutations.js";
import { hostArray } from "./messages.js";

/** Codes of refusals that end a session. */
const ENDS = new Set(["INVALID_MESSAGE", "PROTOCOL_MISMATCH", "MESSAGE_TOO_LARGE"]);

export class HostileWorld {
  readonly rig = new CoreRig();
  readonly vocabulary: Vocabulary;
  /** Messages by outcome. A run with only one kind of outcome would show little. */
  readonly counts = { answered: 0, refused: 0, ended: 0 };
  /** The current hostile session. */
  hostile = 10;
  readonly #numbers: number[] = [];
  readonly #objects: GoodObject[];
  /** Names that WAITER waits for, by request. */
  readonly #waits = new Map<number, string>();
  /**
   * Names that the hostile session published while WAITER waited. WAITER waits again after that
   * session has ended.
   */
  readonly #unwaited: string[] = [];
  /** The ids of its requests that wait. Requests of different operations may have the same id. */
  readonly #hostileWaits: number[] = [];
  #greeted = false;
  #alive = true;
  #works = 0;

  constructor() {
    for (let session = PRODUCER; session <= GOOD_SESSIONS; session += 1) this.rig.greeted(session);
    this.vocabulary = {
      names: [...SHARES.map(({ name }) => name), "later", "frame", "own", "other"],
      numbers: this.#numbers,
    };
    this.#objects = SHARES.map((share) => this.#share(share));
    for (const name of ["unpublished", "later", "later"]) this.#wait(name);
    this.begin(true);
  }

  get alive(): boolean {
    return this.#alive;
  }

  /** Starts the next hostile session. */
  begin(greet: boolean): void {
    this.hostile += 1;
    this.rig.core.connected(this.hostile, peerOf(pidOf(this.hostile)));
    if (greet)
      this.rig.result(this.hostile, "hello", { client: { version: "0", program: "hostile" } });
    this.#greeted = greet;
    this.#alive = true;
    this.#hostileWaits.length = 0;
    this.#numbers.length = 0;
    for (const { object, leases } of this.#objects)
      this.#learn(object, ...leases.map(({ lease }) => lease));
    this.#learn(this.hostile, pidOf(this.hostile), ...this.#waits.keys());
  }

  /** Sends a packet of the hostile session, and checks the outcome. */
  packet(bytes: Uint8Array, fds: readonly number[]): void {
    forgetAnswers(this.rig);
    this.rig.core.packet(this.hostile, bytes, fds);
    this.#judge(bytes, fds);
  }

  /** Sends a packet that the kernel has truncated. */
  damagedPacket(bytes: Uint8Array, code: "MESSAGE_TOO_LARGE" | "TOO_MANY_FDS"): void {
    forgetAnswers(this.rig);
    this.rig.core.damagedPacket(
      this.hostile,
      bytes,
      new CudaIpcError(code, "Cannot receive a message: cut"),
    );
    const { answered, hungUp } = this.rig;
    assert.deepEqual(
      answered.map(({ connection, reply }) => [connection, !reply.ok && reply.error.code]),
      [[this.hostile, code]],
    );
    assert.deepEqual(hungUp, code === "MESSAGE_TOO_LARGE" ? [this.hostile] : []);
    if (hungUp.length > 0) this.#alive = false;
  }

  /**
   * Ends the hostile session and removes objects that outlive it. Checks that nothing is left of
   * it.
   */
  end(hangUpFirst: boolean): void {
    forgetAnswers(this.rig);
    if (hangUpFirst) this.rig.core.hungUp(this.hostile);
    this.rig.core.processEnded(this.hostile);
    assert.equal(this.rig.core.hasConnection(this.hostile), false);
    assert.deepEqual([this.rig.answered, this.rig.hungUp, this.rig.stops], [[], [], 0]);
    checkTimelines(this.rig, this.#objects);
    const mine = new Set(this.#objects.map(({ object }) => object));
    if (this.rig.core.objectCount !== mine.size) {
      const { objects } = this.rig.result(OBSERVER, "list", {}) as ResultOf<"list">;
      for (const { name, object } of objects)
        if (!mine.has(object)) this.rig.result(OBSERVER, "remove", { name });
    }
    this.#repair();
    assert.deepEqual(
      [...this.rig.open].sort(),
      fdsOf(this.#objects).sort(),
      "each descriptor has one owner",
    );
    const { clients, objects, leases, waitingOpens } = this.rig.result(OBSERVER, "status", {});
    const held = this.#objects.reduce((sum, object) => sum + object.leases.length, 0);
    assert.deepEqual(
      [clients, objects, leases, waitingOpens],
      [GOOD_SESSIONS, this.#objects.length, held, this.#waits.size],
    );
  }

  /** Checks what the hub reports of the good sessions, and that they still work. */
  compare(): void {
    for (const fd of fdsOf(this.#objects))
      assert.ok(this.rig.open.has(fd), `descriptor ${fd} of a good session was closed`);
    for (const { share, object, leases, named } of this.#objects) {
      if (!named) continue;
      const seen = this.rig.result(OBSERVER, "inspect", {
        name: share.name,
      }) as ResultOf<"inspect">;
      assert.deepEqual(
        [seen.object.object, seen.object.published, seen.object.lifetime, seen.object.ownerPid],
        [object, share.access !== undefined, share.lifetime, pidOf(PRODUCER)],
      );
      assert.deepEqual(
        seen.holders
          .filter(({ pid }) => pid !== pidOf(this.hostile))
          .map(({ pid, access }) => [pid, access]),
        leases.map(({ session }) => [
          pidOf(session),
          session === PRODUCER ? "owner" : share.access,
        ]),
      );
    }
    this.#work();
  }

  /**
   * Creates, shares and closes an array, and cancels a wait. WHY numbered names: the hostile
   * session cannot guess them.
   */
  #work(): void {
    const { rig } = this;
    this.#works += 1;
    const name = `work-${this.#works}-${this.hostile}`;
    const waiting = rig.send(WAITER, "open", { name, access: "read", wait: true });
    const given = rig.send(WAITER, "open", { name, access: "read", wait: true });
    rig.result(WAITER, "cancel", { request: given });
    assert.deepEqual(rig.codes(WAITER, given), ["ABORTED"]);
    const fd = rig.fd();
    const made = rig.result(PRODUCER, "create", { name, lifetime: "held", descriptor: hostArray }, [
      fd,
    ]);
    assert.deepEqual(rig.codes(WAITER, waiting), []);
    rig.result(PRODUCER, "publish", { object: made.object as number });
    const [granted] = rig.answersTo(WAITER, waiting);
    assert.ok(granted?.reply.ok);
    const { object, lease } = granted.reply.result as ResultOf<"open">;
    assert.equal(object, made.object);
    rig.result(PRODUCER, "release", { lease: made.lease as number });
    assert.ok(rig.open.has(fd));
    rig.result(WAITER, "release", { lease });
    assert.ok(!rig.open.has(fd));
  }

  #share(share: Share): GoodObject {
    const { name, descriptor, lifetime, access } = share;
    const { content, allocationByteLength } = descriptor;
    const isChannel = content.kind === "channel";
    const fds = isChannel
      ? this.rig.channelFds(content)
      : [this.rig.fd({ byteLength: allocationByteLength })];
    if (content.kind === "bundle") fds.push(this.rig.fd({ byteLength: content.indexByteLength }));
    const made = this.rig.result(
      PRODUCER,
      "create",
      { name, lifetime, descriptor },
      fds,
    ) as ResultOf<"create">;
    const leases = [{ session: PRODUCER, lease: made.lease }];
    if (access !== undefined) {
      this.rig.result(PRODUCER, "publish", { object: made.object });
      const role = isChannel ? { role: "reader" as const } : {};
      const { lease } = this.rig.result(READER, "open", {
        name,
        access,
        wait: false,
        ...role,
      }) as ResultOf<"open">;
      leases.push({ session: READER, lease });
    }
    return { share, object: made.object, leases, fds, named: true };
  }

  #wait(name: string): void {
    this.#waits.set(this.rig.send(WAITER, "open", { name, access: "read", wait: true }), name);
  }

  /** Shares objects again that lost their names. Releases their old leases first. */
  #repair(): void {
    for (const [index, { share, leases, named }] of this.#objects.entries()) {
      if (named) continue;
      for (const { session, lease } of leases) this.rig.result(session, "release", { lease });
      this.#objects[index] = this.#share(share);
    }
    for (const name of this.#unwaited.splice(0)) this.#wait(name);
  }

  #judge(bytes: Uint8Array, fds: readonly number[]): void {
    const { answered, hungUp, open } = this.rig;
    checkTimelines(this.rig, this.#objects);
    for (const { connection, reply } of answered) {
      if (connection !== this.hostile || reply.ok) continue;
      // WHY not SYSTEM_ERROR: the core answers it for its own failures.
      assert.ok(
        isErrorCode(reply.error.code) && reply.error.code !== "SYSTEM_ERROR",
        JSON.stringify(reply),
      );
    }
    const [only] = answered;
    const refused =
      answered.length === 1 && only?.connection === this.hostile && !only.reply.ok
        ? only.reply
        : undefined;
    if (hungUp.length > 0 && refused !== undefined) {
      assert.deepEqual(
        [hungUp, this.rig.stops, ENDS.has(refused.error.code)],
        [[this.hostile], 0, true],
      );
      for (const fd of fds)
        assert.ok(!open.has(fd), `descriptor ${fd} of an invalid message was kept`);
      this.counts.ended += 1;
      this.#alive = false;
      return;
    }
    const request = decodeRequest(bytes);
    assert.ok(this.#greeted || request.op === "hello", `"${request.op}" was taken before "hello"`);
    this.#greeted = true;
    this.#judgeRequest(request, fds);
  }

  #judgeRequest(request: Request, fds: readonly number[]): void {
    const { answered, hungUp, open, stops } = this.rig;
    const answer = answered.find(
      ({ connection, reply }) => connection === this.hostile && reply.id === request.id,
    );
    const ok = answer?.reply.ok === true;
    const kept = ok && request.op === "create";
    for (const fd of fds)
      assert.equal(open.has(fd), kept, `descriptor ${fd} ${kept ? "was closed" : "is kept"}`);
    assert.deepEqual(hungUp, ok && request.op === "bye" ? [this.hostile] : []);
    assert.equal(this.rig.restarts, 0);
    assert.deepEqual(this.rig.forgotten, [], "no session is taken over by another process");
    assert.equal(stops, 0);
    this.counts[ok ? "answered" : "refused"] += 1;
    if (request.op === "bye" && ok) this.#alive = false;
    const waits = mayWait(request) && answer === undefined;
    assert.ok(answer !== undefined || waits, `"${request.op}" has no answer`);
    for (const other of [...answered]) {
      if (other === answer) continue;
      if (other.connection === this.hostile) {
        const at = this.#hostileWaits.indexOf(other.reply.id);
        assert.ok(at >= 0, `request ${other.reply.id} was answered but was not open`);
        this.#hostileWaits.splice(at, 1);
        const { lease } = (other.reply.ok ? other.reply.result : {}) as Partial<ResultOf<"open">>;
        if (lease !== undefined) this.#learn(lease);
      } else this.#judgeGrant(other, ok && request.op === "publish");
    }
    if (waits) this.#hostileWaits.push(request.id);
    if (!answer?.reply.ok) return;
    if (request.op === "remove") {
      for (const object of this.#objects)
        if (object.share.name === request.name) object.named = false;
    }
    if (request.op === "create" || request.op === "open") {
      const { object, lease } = answer.reply.result as ResultOf<"create">;
      this.#learn(object, lease);
    }
  }

  /**
   * Checks the reply if WAITER waits for a name that was published. Any client may publish it.
   * WAITER releases the lease.
   */
  #judgeGrant({ connection, reply, fds }: Answered, published: boolean): void {
    const name = this.#waits.get(reply.id);
    assert.ok(
      published && connection === WAITER && name !== undefined,
      `connection ${connection} got an unexpected reply`,
    );
    if (!reply.ok) {
      assert.equal(reply.error.code, "WRONG_KIND", "it did not wait for a channel");
      this.#waits.delete(reply.id);
      this.#unwaited.push(name);
      return;
    }
    const { lease, descriptor } = reply.result as ResultOf<"open">;
    assert.equal(fds.length, descriptor.content.kind === "bundle" ? 2 : 1);
    this.#waits.delete(reply.id);
    this.rig.result(WAITER, "release", { lease });
    this.#unwaited.push(name);
  }

  #learn(...numbers: readonly number[]): void {
    this.#numbers.push(...numbers);
  }
}

/** Whether the hub may answer it later. */
function mayWait(request: Request): boolean {
  const { op } = request;
  return op === "drain" || ((op === "open" || op === "changes") && request.wait === true);
}
