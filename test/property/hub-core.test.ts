/**
 * The hub's core against a model that is as simple as its promises: random sequences of requests and deaths, after each of which
 * every descriptor has one owner, every lease a session, every name one object, and every open its one answer.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import type { ObjectSummary } from "../../src/wire/messages.js";
import { CoreRig } from "../support/core-rig.js";
import { gpuArray, hostArray, hostBundle } from "../support/messages.js";

const OBSERVER = 1000;
const SESSIONS = [1, 2, 3];
const NAMES = ["a", "b", "c"];

interface ModelObject {
  readonly id: number;
  readonly name: string;
  readonly pinned: boolean;
  readonly fds: number;
  readonly owner: number;
  readonly leases: Map<number, { readonly session: number; readonly owner: boolean }>;
  published: boolean;
  named: boolean;
}

interface ModelOpen {
  readonly session: number;
  readonly id: number;
  readonly name: string;
  state: "waiting" | "answered" | "dropped";
}

class Model {
  readonly objects = new Map<number, ModelObject>();
  readonly opens: ModelOpen[] = [];
  readonly live = new Set<number>();

  named(name: string): ModelObject | undefined {
    return [...this.objects.values()].find((object) => object.named && object.name === name);
  }

  /** What is left after something ended. */
  settle(): void {
    for (const object of [...this.objects.values()]) {
      const owned = [...object.leases.values()].some(({ owner }) => owner);
      if (!object.published && !owned) object.named = false;
      if (object.leases.size === 0 && !(object.named && object.pinned)) this.objects.delete(object.id);
    }
  }

  end(session: number): void {
    this.live.delete(session);
    this.drop(session);
    for (const object of this.objects.values()) {
      for (const [lease, holder] of object.leases) if (holder.session === session) object.leases.delete(lease);
    }
    this.settle();
  }

  drop(session: number): void {
    for (const open of this.opens) if (open.session === session && open.state === "waiting") open.state = "dropped";
  }

  leasesOf(session: number): number[] {
    return [...this.objects.values()].flatMap((object) =>
      [...object.leases].flatMap(([lease, holder]) => (holder.session === session ? [lease] : [])),
    );
  }
}

type Step = (rig: CoreRig, model: Model) => void;

const session = fc.constantFrom(...SESSIONS);
const name = fc.constantFrom(...NAMES);

/** The outcome that the model says, compared with the answer: an object with the code, or "ok". */
function judge(rig: CoreRig, session: number, id: number, wanted: string): Record<string, unknown> {
  assert.deepEqual(rig.codes(session, id), [wanted]);
  const [answer] = rig.answersTo(session, id);
  return answer?.reply.ok ? (answer.reply.result as Record<string, unknown>) : {};
}

function ifLive(session: number, step: Step): Step {
  return (rig, model) => {
    if (!model.live.has(session)) {
      rig.greeted(session);
      model.live.add(session);
    }
    step(rig, model);
  };
}

function grant(rig: CoreRig, object: ModelObject, session: number, id: number): void {
  const { lease, object: found } = judge(rig, session, id, "ok");
  assert.equal(found, object.id);
  object.leases.set(lease as number, { session, owner: false });
}

const create = fc
  .tuple(session, name, fc.boolean(), fc.constantFrom("host", "gpu", "bundle", "spoiled"))
  .map(([session, name, pinned, kind]) =>
    ifLive(session, (rig, model) => {
      const descriptor = kind === "gpu" ? gpuArray : kind === "bundle" ? hostBundle(1, 200) : hostArray;
      const memory = rig.fd({ sizeSealed: kind !== "spoiled" });
      const fds = kind === "bundle" ? [memory, rig.fd({ byteLength: 200 })] : [memory];
      const id = rig.send(session, "create", { name, lifetime: pinned ? "pinned" : "held", descriptor }, fds);
      const wanted = kind === "spoiled" ? "INVALID_DESCRIPTOR" : model.named(name) !== undefined ? "NAME_TAKEN" : "ok";
      const { object, lease } = judge(rig, session, id, wanted);
      if (wanted !== "ok") return;
      const leases = new Map([[lease as number, { session, owner: true }]]);
      const made = { id: object as number, name, pinned, fds: fds.length, owner: session, leases, published: false };
      model.objects.set(made.id, { ...made, named: true });
    }),
  );

const publish = fc.tuple(session, fc.nat()).map(([session, pick]) =>
  ifLive(session, (rig, model) => {
    const all = [...model.objects.values()];
    const object = all[pick % Math.max(1, all.length)];
    const owns = [...(object?.leases.values() ?? [])].some((lease) => lease.owner && lease.session === session);
    const waiting = model.opens.filter(
      (open) => open.state === "waiting" && object?.named && open.name === object.name,
    );
    const id = rig.send(session, "publish", { object: object?.id ?? 12_345_678 });
    judge(rig, session, id, object === undefined ? "NOT_FOUND" : owns ? "ok" : "NOT_OWNER");
    if (object === undefined || !owns) return;
    object.published = true;
    for (const open of waiting) {
      open.state = "answered";
      grant(rig, object, open.session, open.id);
    }
  }),
);

const open = fc
  .tuple(session, name, fc.boolean(), fc.constantFrom("read" as const, "read-write" as const))
  .map(([session, name, wait, access]) =>
    ifLive(session, (rig, model) => {
      const object = model.named(name);
      const id = rig.send(session, "open", { name, access, wait });
      if (object?.published) grant(rig, object, session, id);
      else if (!wait) judge(rig, session, id, "NOT_FOUND");
      else model.opens.push({ session, id, name, state: "waiting" });
    }),
  );

const cancel = fc.tuple(session, fc.nat()).map(([session, pick]) =>
  ifLive(session, (rig, model) => {
    const open = model.opens[pick % Math.max(1, model.opens.length)];
    judge(rig, session, rig.send(session, "cancel", { request: open?.id ?? 12_345_678 }), "ok");
    if (open === undefined || open.session !== session || open.state !== "waiting") return;
    open.state = "answered";
    judge(rig, session, open.id, "ABORTED");
  }),
);

const release = fc.tuple(session, session, fc.nat()).map(([session, holder, pick]) =>
  ifLive(session, (rig, model) => {
    const leases = model.leasesOf(holder);
    const lease = leases[pick % Math.max(1, leases.length)];
    const held = lease !== undefined && holder === session;
    judge(rig, session, rig.send(session, "release", { lease: lease ?? 12_345_678 }), held ? "ok" : "NOT_FOUND");
    if (!held) return;
    for (const object of model.objects.values()) object.leases.delete(lease);
    model.settle();
  }),
);

const remove = fc.tuple(session, name).map(([session, name]) =>
  ifLive(session, (rig, model) => {
    const object = model.named(name);
    judge(rig, session, rig.send(session, "remove", { name }), object === undefined ? "NOT_FOUND" : "ok");
    if (object !== undefined) object.named = false;
    model.settle();
  }),
);

const spoil = session.map((session) =>
  ifLive(session, (rig, model) => {
    rig.core.packet(session, Buffer.from('{"v":1,"op":"nonsense"}'), [rig.fd(), rig.fd()]);
    assert.ok(model.live.has(session));
  }),
);

const bye = session.map((session) =>
  ifLive(session, (rig, model) => {
    rig.result(session, "bye", {});
    model.end(session);
  }),
);

const gone = session.map<Step>((session) => (rig, model) => {
  rig.core.processEnded(session);
  model.end(session);
});

/** Hung up: nothing more comes from the session; later its process ends. */
const hangUp = session.map<Step>((session) => (rig, model) => {
  rig.core.hungUp(session);
  model.drop(session);
  const held = model.leasesOf(session).length > 0;
  assert.equal(rig.core.hasConnection(session), model.live.has(session) && held);
  rig.core.processEnded(session);
  model.end(session);
});

const steps: fc.Arbitrary<Step> = fc.oneof(
  { weight: 5, arbitrary: create },
  { weight: 5, arbitrary: publish },
  { weight: 6, arbitrary: open },
  { weight: 2, arbitrary: cancel },
  { weight: 4, arbitrary: release },
  { weight: 2, arbitrary: remove },
  { weight: 1, arbitrary: spoil },
  { weight: 1, arbitrary: bye },
  { weight: 1, arbitrary: gone },
  { weight: 1, arbitrary: hangUp },
);

function compare(rig: CoreRig, model: Model): void {
  const objects = [...model.objects.values()];
  const fds = objects.reduce((sum, object) => sum + object.fds, 0);
  assert.equal(rig.open.size, fds, "each descriptor has one owner");
  const named = objects.filter((object) => object.named).sort((one, other) => (one.name < other.name ? -1 : 1));
  const listed = rig.result(OBSERVER, "list", {}).objects as ObjectSummary[];
  assert.deepEqual(
    listed.map(({ name, object, published, leases, lifetime, ownerPid }) => ({
      name,
      object,
      published,
      leases,
      lifetime,
      ownerPid,
    })),
    named.map((object) => ({
      name: object.name,
      object: object.id,
      published: object.published,
      leases: object.leases.size,
      lifetime: object.pinned ? "pinned" : "held",
      ownerPid: [...object.leases.values()].some(({ owner }) => owner) ? 1000 + object.owner : null,
    })),
  );
  const status = rig.result(OBSERVER, "status", {});
  assert.deepEqual(
    [status.objects, status.leases, status.waitingOpens, status.clients],
    [
      objects.length,
      objects.reduce((sum, object) => sum + object.leases.size, 0),
      model.opens.filter((open) => open.state === "waiting").length,
      model.live.size + 1,
    ],
  );
  for (const open of model.opens) {
    assert.equal(
      rig.answersTo(open.session, open.id).length,
      open.state === "answered" ? 1 : 0,
      "each open has one answer",
    );
  }
}

describe("the hub's core", () => {
  it("keeps its promises through any sequence of requests and deaths", () => {
    fc.assert(
      fc.property(fc.array(steps, { maxLength: 60 }), (sequence) => {
        const rig = new CoreRig();
        const model = new Model();
        rig.greeted(OBSERVER);
        for (const step of sequence) {
          step(rig, model);
          compare(rig, model);
        }
        for (const session of SESSIONS) {
          rig.core.processEnded(session);
          model.end(session);
        }
        compare(rig, model);
        rig.core.close();
        assert.equal(rig.open.size, 0, "nothing is left open at the end");
      }),
      { numRuns: 300 },
    );
  });
});
