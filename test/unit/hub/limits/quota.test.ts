import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { defaultQuotas } from "../../../../src/hub/limits/policy.js";
import { Account, MessageRate, type Quota, resources } from "../../../../src/hub/limits/quota.js";

const NONE = Number.POSITIVE_INFINITY;
const unlimited: Quota = { ...defaultQuotas.user };

function chain(limits: {
  readonly hub?: Partial<Quota>;
  readonly user?: Partial<Quota>;
  readonly client?: Partial<Quota>;
}) {
  const hub = new Account("hub", "the hub", { ...unlimited, ...limits.hub });
  const user = new Account("user", "user 7", { ...unlimited, ...limits.user }, hub);
  const client = new Account("client", "this client", { ...unlimited, ...limits.client }, user);
  return { hub, user, client };
}

function send(rate: MessageRate, nowMs: number): number {
  const waitMs = rate.waitMs(nowMs);
  if (waitMs === 0) rate.count();
  return waitMs;
}

describe("an account", () => {
  it("charges and refunds itself and the accounts above it", () => {
    const { hub, user, client } = chain({});
    client.charge("create", { objects: 1, hostBytes: 4096 });
    user.charge("connect", { clients: 1 });
    assert.deepEqual(
      [client.used("objects"), user.used("objects"), hub.used("hostBytes")],
      [1, 1, 4096],
    );
    assert.deepEqual(
      [client.used("clients"), user.used("clients"), hub.used("clients")],
      [0, 1, 1],
    );
    client.refund({ objects: 1, hostBytes: 4096 });
    assert.deepEqual(
      [client, user, hub].flatMap((one) => [one.used("objects"), one.used("hostBytes")]),
      [0, 0, 0, 0, 0, 0],
    );
  });

  for (const level of ["hub", "user", "client"] as const) {
    for (const resource of resources) {
      it(`is refused ${resource} over the limit of its ${level}, which the error names, and charges nobody then`, () => {
        const accounts = chain({ [level]: { [resource]: 10 } });
        const { client } = accounts;
        client.charge("fill", {
          [resource]: 10,
          [resource === "leases" ? "objects" : "leases"]: 3,
        });
        assert.throws(() => client.charge("take more", { [resource]: 1 }), {
          code: "LIMIT_EXCEEDED",
          message: new RegExp(
            `take more: ${accounts[level].label} has 10 .* 1 more .* limit of 10 \\(limits.${level}.${resource}\\)`,
          ),
        });
        for (const one of Object.values(accounts)) assert.equal(one.used(resource), 10);
      });
    }
  }

  it("can be filled exactly to its limit", () => {
    const { client } = chain({ client: { leases: 2 } });
    client.charge("open", { leases: 2 });
    assert.equal(client.used("leases"), 2);
  });

  it("take() goes over the limit, and charge() is refused afterwards", () => {
    const { client, hub } = chain({ hub: { objects: 1 } });
    client.take({ objects: 5 });
    assert.equal(hub.used("objects"), 5);
    assert.throws(() => client.charge("create", { objects: 1 }), { code: "LIMIT_EXCEEDED" });
    client.charge("open", { leases: 1 });
  });

  it("refundHere() leaves the charge in the accounts above", () => {
    const { client, user, hub } = chain({});
    client.charge("create", { objects: 1 });
    client.refundHere({ objects: 1 });
    assert.deepEqual(
      [client.used("objects"), user.used("objects"), hub.used("objects")],
      [0, 1, 1],
    );
    client.takeHere({ objects: 1 });
    assert.deepEqual([client.used("objects"), user.used("objects")], [1, 1]);
  });

  it("throws if more is refunded than was charged", () => {
    assert.throws(() => chain({}).client.refund({ leases: 1 }), RangeError);
  });
});

describe("the rate of messages", () => {
  it("is limited by the account that must wait longest, which the error names", () => {
    const { client, user } = chain({
      client: { messagesPerSecond: 2 },
      user: { messagesPerSecond: 1 },
    });
    assert.deepEqual(client.countMessage(0), { waitMs: 0, exceeded: undefined });
    assert.deepEqual(client.countMessage(0), { waitMs: 1000, exceeded: user });
    assert.deepEqual(client.countMessage(1000), { waitMs: 0, exceeded: undefined });
  });

  it("is limited by an account above if that one must wait longer", () => {
    const { client, user } = chain({
      client: { messagesPerSecond: 2 },
      user: { messagesPerSecond: 3 },
    });
    const sibling = new Account("client", "another client", unlimited, user);
    for (const one of [client, client, sibling]) assert.equal(one.countMessage(0).waitMs, 0);
    assert.equal(sibling.countMessage(400).waitMs, 0);
    const { waitMs, exceeded } = client.countMessage(400);
    assert.deepEqual([exceeded, Math.round(waitMs)], [user, 267]);
  });

  it("does not count refused messages in the accounts above", () => {
    const { hub, user, client } = chain({
      user: { messagesPerSecond: 1 },
      hub: { messagesPerSecond: 3 },
    });
    const other = new Account("user", "user 8", { ...unlimited, messagesPerSecond: NONE }, hub);
    for (let i = 0; i < 100; i += 1) client.countMessage(0);
    assert.equal(client.countMessage(0).exceeded, user);
    assert.deepEqual(
      [0, 0].map((nowMs) => other.countMessage(nowMs).waitMs),
      [0, 0],
    );
    assert.equal(other.countMessage(0).exceeded, hub);
  });
});

describe("a message rate", () => {
  it("lets one second's messages through at once, and then each one in its time", () => {
    const rate = new MessageRate(4);
    assert.deepEqual(
      [0, 0, 0, 0, 0].map((nowMs) => send(rate, nowMs)),
      [0, 0, 0, 0, 250],
    );
    assert.deepEqual(
      [100, 250, 250, 500].map((nowMs) => send(rate, nowMs)),
      [150, 0, 250, 0],
    );
  });

  it("saves up at most one second's messages", () => {
    const rate = new MessageRate(2);
    assert.deepEqual(
      [60_000, 60_000, 60_000].map((nowMs) => send(rate, nowMs)),
      [0, 0, 500],
    );
  });

  it("does not count a refused message", () => {
    const rate = new MessageRate(1);
    send(rate, 0);
    for (let i = 0; i < 1000; i += 1) assert.equal(send(rate, 0), 1000);
    assert.equal(send(rate, 1000), 0);
  });

  it("does not refill if the clock goes back", () => {
    const rate = new MessageRate(1);
    assert.equal(send(rate, 5000), 0);
    assert.equal(send(rate, 4000), 1000);
    assert.equal(send(rate, 5500), 500);
  });

  it("allows everything if the limit is Infinity", () => {
    const rate = new MessageRate(Number.POSITIVE_INFINITY);
    for (let i = 0; i < 100; i += 1) assert.equal(send(rate, 0), 0);
  });
});
