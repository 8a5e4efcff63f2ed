/**
 * The world of the matrix: a hub, a producer and a consumer as processes, and a bystander in the
 * test itself. The bystander has an array of its own, holds one whose owner is gone, and must not
 * notice any fault.
 */
import assert from "node:assert/strict";
import { connect } from "../../../src/client/connect.js";
import type { Hub } from "../../../src/client/hub.js";
import type { SharedArray } from "../../../src/client/objects/shared-array.js";
import { openBufferCount } from "../../../src/gpu/memory/open-buffers.js";
import { mappedBytes } from "../../../src/os/mapping.js";
import { openFdCount } from "../../../src/os/owned-fd.js";
import { TestFolder } from "../test-folder.js";
import { until } from "../until.js";
import { type PartyRole, parties } from "./cells.js";
import { KeptHub } from "./kept-hub.js";
import { Party } from "./party.js";
import { assertStamp, STAMPED, stampedValues } from "./stamped.js";

const PLAYS = new URL("../../process/matrix/actors/plays.js", import.meta.url);
const SERVES = new URL("../../process/matrix/actors/serves.js", import.meta.url);
const OWN_STAMP = 7;
const PINNED_STAMP = 8;
/** The stamp of an array that no process holds. Only the keeper has it for the next hub. */
const UNHELD_STAMP = 9;

type Counts = Readonly<Record<string, unknown>>;

export class World {
  readonly folder: TestFolder;
  bystander!: Hub;
  #hub!: Party | KeptHub;
  #parties!: Record<Exclude<PartyRole, "hub">, Party>;
  #own!: SharedArray;
  #pinned!: SharedArray;
  #atStart: Counts = {};
  #idle: Counts = {};
  #ownAtStart: Counts = {};
  /** The number of all descriptors of a hub, and that hub. */
  #hubFds: { readonly hub: Party | KeptHub; readonly count: unknown } | undefined;
  #reconnects = 0;

  private constructor(folder: TestFolder) {
    this.folder = folder;
  }

  /** @param withKeeper runs the hub as the program that users start, with a keeper */
  static async start(withKeeper = false): Promise<World> {
    const world = new World(new TestFolder());
    if (withKeeper) world.#hub = await KeptHub.start(world.folder);
    else {
      const hub = world.#start("hub");
      world.#hub = hub;
      assert.equal((await hub.ready()).code, null, hub.complaint);
    }
    world.bystander = await world.#connect();
    world.bystander.onReconnect(({ resumed }) => {
      assert.ok(resumed, "the bystander has lost nothing");
      world.#reconnects += 1;
    });
    world.#own = await world.#published(world.bystander, "own", OWN_STAMP, "held");
    const owner = await world.#connect();
    await world.#published(owner, "pinned", PINNED_STAMP, "pinned");
    if (withKeeper) await world.#published(owner, "unheld", UNHELD_STAMP, "pinned");
    await owner.close();
    world.#pinned = await world.bystander.open("pinned");
    world.#parties = { producer: world.#start("producer"), consumer: world.#start("consumer") };
    for (const party of Object.values(world.#parties))
      assert.equal((await party.ready()).code, null, party.complaint);
    world.#atStart = await world.#leave("producer");
    await world.#leave("consumer");
    world.#idle = await world.#counts();
    world.#ownAtStart = ownCounts();
    return world;
  }

  party(role: PartyRole): Party {
    if (role !== "hub") return this.#parties[role];
    if (this.#hub instanceof KeptHub)
      throw new TypeError("This hub takes no orders: it has a keeper");
    return this.#hub;
  }

  /** Waits until hub and keeper are both other processes than `earlier`. */
  async keptHub(...earlier: readonly number[]): Promise<KeptHub> {
    if (!(this.#hub instanceof KeptHub)) throw new TypeError("This hub has no keeper");
    this.#hub = await this.#hub.next(this.bystander, ...earlier);
    return this.#hub;
  }

  /** Makes the hub hang up on all its clients. */
  async cutAll(): Promise<void> {
    await this.#hub.tell({ do: "cut" });
  }

  /** How often the bystander has reconnected to a hub. */
  get reconnects(): number {
    return this.#reconnects;
  }

  /** Replaces the parties that have ended, and those in `also`. */
  async replaceEnded(also: readonly PartyRole[] = []): Promise<void> {
    for (const role of parties) {
      // WHY not a hub with a keeper: the keeper replaces it.
      if (role === "hub" && this.#hub instanceof KeptHub) continue;
      if (!also.includes(role) && !this.party(role).hasEnded) continue;
      const party = this.#start(role);
      if (role === "hub") this.#hub = party;
      else this.#parties[role] = party;
      const { code, message } = await party.ready();
      assert.equal(code, null, `${message}\n${party.complaint}`);
    }
  }

  /**
   * Checks that the bystander's data is unchanged, and that it can open what others have published.
   */
  async checkBystander(): Promise<void> {
    await this.checkMapped();
    for (const [name, stamp] of [
      ["own", OWN_STAMP],
      ["pinned", PINNED_STAMP],
      ...(this.#hub instanceof KeptHub ? ([["unheld", UNHELD_STAMP]] as const) : []),
    ] as const) {
      const again = await this.bystander.open(name, { wait: false });
      assertStamp(
        (await again.expectDType("int32").read()) as Int32Array,
        stamp,
        `"${name}", opened anew`,
      );
      again.close();
    }
  }

  /** Checks the mapped data, which needs no hub. */
  async checkMapped(): Promise<void> {
    assertStamp(
      (await this.#own.expectDType("int32").read()) as Int32Array,
      OWN_STAMP,
      "the bystander's own array",
    );
    assertStamp(
      (await this.#pinned.expectDType("int32").read()) as Int32Array,
      PINNED_STAMP,
      "the array that the bystander holds",
    );
  }

  /**
   * Makes all parties close everything. Then they and the hub must hold what they held at the
   * start, except for waiting opens of the bystander.
   */
  async clean(waitingOpens = 0): Promise<void> {
    for (const role of ["producer", "consumer"] as const) {
      assert.deepEqual(
        await this.#leave(role),
        this.#atStart,
        `the ${role} holds what it held at the start`,
      );
    }
    const hub = this.#hub;
    const wanted = {
      ...this.#idle,
      waitingOpens,
      ...(this.#hubFds?.hub === hub ? { all: this.#hubFds.count } : {}),
    };
    let now: Counts = {};
    // WHY polled: the hub learns of the end of a process later, and a file that it just reads is a
    // descriptor too.
    await until("the hub holds what it held at the start", async () => {
      now = await this.#counts(this.#hubFds?.hub === hub);
      return JSON.stringify(now) === JSON.stringify(wanted);
    }).catch(() => assert.deepEqual(now, wanted, "the hub holds what it held at the start"));
    this.#hubFds = { hub, count: hub.fds().all };
    assert.deepEqual(
      ownCounts(),
      this.#ownAtStart,
      "the bystander holds what it held at the start",
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      const hub = this.#hub;
      await Promise.race([
        this.bystander.close(),
        ...(hub instanceof KeptHub ? [] : [hub.exited()]),
      ]);
    } finally {
      for (const party of [this.#hub, ...Object.values(this.#parties)])
        await party[Symbol.asyncDispose]();
      await this.bystander.close().catch(() => {});
      // WHY not with a keeper: the end of the hub removes the folder.
      if (!(this.#hub instanceof KeptHub)) await this.folder[Symbol.asyncDispose]();
    }
  }

  #start(role: PartyRole): Party {
    const { socket } = this.folder;
    if (role === "hub") return new Party(role, SERVES, [socket]);
    return new Party(role, PLAYS, [socket, role]);
  }

  #connect(): Promise<Hub> {
    return connect({
      socket: this.folder.socket,
      start: false,
      device: "host",
      program: "bystander",
    });
  }

  async #published(
    hub: Hub,
    name: string,
    stamp: number,
    lifetime: "held" | "pinned",
  ): Promise<SharedArray> {
    const array = await hub.create(name, { ...STAMPED, lifetime });
    await array.write(stampedValues(stamp));
    await array.publish();
    return array;
  }

  async #leave(role: Exclude<PartyRole, "hub">): Promise<Counts> {
    return (await this.#parties[role].must({ do: "leave" })) as Counts;
  }

  async #counts(withAllFds = false): Promise<Counts> {
    const { objects, leases, clients, detached, waitingOpens, withoutMemory, keeper } =
      await this.bystander.status();
    const { memory, process, socket, all } = this.#hub.fds();
    return {
      objects,
      leases,
      clients,
      detached,
      waitingOpens,
      withoutMemory,
      isKept: isKept(keeper?.descriptors),
      memory,
      // WHY not with a keeper: a hub that a keeper starts has other descriptors of its own.
      ...(this.#hub instanceof KeptHub ? {} : { process, socket }),
      ...(withAllFds ? { all } : {}),
    };
  }
}

/**
 * Whether the keeper has what it has at the start and nothing else: the lock, the listener, three
 * arrays, and the processes of one to three clients. WHY not exact: a client that has held
 * something counts until its session ends, at the latest with the hub.
 */
function isKept(descriptors: number | undefined): boolean {
  return descriptors === undefined || (descriptors >= 6 && descriptors <= 8);
}

function ownCounts(): Counts {
  return { fds: openFdCount(), mappedBytes: mappedBytes(), buffers: openBufferCount() };
}
