/**
 * A setup in which a client's system calls fail: a hub in another process, a client without
 * failures, and checks of what both hold before and after each round.
 */
import assert from "node:assert/strict";
import { inspect } from "node:util";
import type { CudaIpcError } from "../../src/base/errors.js";
import type { Hub } from "../../src/client/hub.js";
import { errnos } from "../../src/os/system-error.js";
import { assertHeld, type Held, held } from "./leak-check.js";
import type { Round, RoundResult } from "./system-call-sweep.js";
import { TestHub } from "./test-hub.js";
import { until } from "./until.js";

interface Place {
  readonly hub: TestHub;
  readonly other: Hub;
  /** The hub's descriptors while only the other client is connected. */
  readonly hubFds: number;
  readonly held: Held;
}

/** Calls that may end the client's connection, because a message can be lost with them. */
const TRANSPORT: ReadonlySet<string> = new Set(["sendmsg", "recvmsg"]);
const HARMLESS: ReadonlySet<number> = new Set([errnos.EAGAIN, errnos.EINTR]);

export class ClientSite {
  #place: Place | undefined;
  /** Why the connection of this round ended; undefined if it did not. */
  #ended: CudaIpcError | undefined;
  /** The error of a step after the call that failed. */
  #broken: unknown;

  /** Starts the hub and the other client, before any call fails. */
  async prepare(): Promise<void> {
    await this.#ready();
  }

  /** Connects a new client and notes why its connection ends. */
  async join(): Promise<Hub> {
    const { hub } = await this.#ready();
    const joined = await hub.connect();
    joined.onEnd((reason) => {
      this.#ended = reason;
    });
    return joined;
  }

  /**
   * Runs one round with its own client, which goes on after the failure and then closes normally.
   */
  async run(
    operation: (hub: Hub, round: Round, other: Hub) => Promise<void>,
    round: Round,
  ): Promise<void> {
    const { other } = await this.#ready();
    const hub = await this.join();
    try {
      await operation(hub, round, other);
    } finally {
      try {
        if (this.#ended === undefined) await this.#goOn(hub, other);
        await hub.close();
      } catch (error) {
        this.#broken = error;
      }
    }
  }

  /** Checks that nothing of the round is left, here or on the hub, and that the hub works. */
  async check({ failure }: RoundResult): Promise<void> {
    const what = failure?.description ?? "no failure";
    const place = await this.#ready();
    const ended = this.#ended;
    const broken = this.#broken;
    this.#ended = undefined;
    this.#broken = undefined;
    assert.equal(broken, undefined, `after ${what}: ${inspect(broken)}`);
    const mayEnd =
      failure !== undefined && TRANSPORT.has(failure.call.name) && !HARMLESS.has(failure.errno);
    assert.ok(ended === undefined || mayEnd, `${what} ended the connection: ${inspect(ended)}`);
    await assertHeld(place.held).catch((error: Error) =>
      assert.fail(`after ${what}: ${error.message}`),
    );
    const lasting = await this.#whatLasts(place, what, mayEnd);
    // WHY another hub: a client that is cut off without "bye" keeps its leases until its process
    // ends. Its process is this one.
    if (lasting) await this.close();
  }

  async close(): Promise<void> {
    const place = this.#place;
    this.#place = undefined;
    if (place === undefined) return;
    try {
      await place.other.close();
    } finally {
      await place.hub[Symbol.asyncDispose]();
    }
  }

  /** WHY before the client leaves: its end releases everything, which would hide a leaked lease. */
  async #goOn(hub: Hub, other: Hub): Promise<void> {
    await hub.status();
    await until(
      "all leases of the client are released",
      async () => (await other.status()).leases === 0,
    );
    await useIt(hub, other);
  }

  /**
   * Waits until the hub holds nothing again.
   * @returns whether leases stay, which only a lost connection may cause
   */
  async #whatLasts({ hub, other, hubFds }: Place, what: string, mayEnd: boolean): Promise<boolean> {
    let lasting = false;
    await until(`after ${what} the hub holds nothing`, async () => {
      const { objects, leases, clients, waitingOpens } = await other.status();
      lasting = mayEnd && leases > 0;
      return (
        lasting ||
        (objects + leases + waitingOpens === 0 && clients === 1 && hub.fdCount() === hubFds)
      );
    });
    return lasting;
  }

  async #ready(): Promise<Place> {
    if (this.#place !== undefined) return this.#place;
    const hub = await TestHub.start();
    try {
      const other = await hub.connect();
      // WHY: each process keeps what it opens or allocates at first use.
      const first = await hub.connect();
      await useIt(first, other);
      await first.close();
      (await other.createTimeline("first")).close();
      await until("the first client has left", async () => (await other.status()).clients === 1);
      this.#place = { hub, other, hubFds: hub.fdCount(), held: held() };
      return this.#place;
    } catch (error) {
      await hub[Symbol.asyncDispose]();
      throw error;
    }
  }
}

async function useIt(hub: Hub, other: Hub): Promise<void> {
  using array = await hub.create("afterwards", { dtype: "int32", shape: [3] });
  await array.write(Int32Array.of(1, 2, 3));
  await array.publish();
  using opened = await other.open("afterwards");
  assert.deepEqual(await opened.read(), Int32Array.of(1, 2, 3));
}
