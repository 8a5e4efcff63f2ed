import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { defaultQuotas } from "../../../src/hub/policy.js";
import { Account, type Quota, resources } from "../../../src/hub/quota.js";

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

describe("an account", () => {
  it("counts what is charged to it in all that it is part of, and what is refunded", () => {
    const { hub, user, client } = chain({});
    client.charge("create", { objects: 1, hostBytes: 4096 });
    user.charge("connect", { clients: 1 });
    assert.deepEqual([client.used("objects"), user.used("objects"), hub.used("hostBytes")], [1, 1, 4096]);
    assert.deepEqual([client.used("clients"), user.used("clients"), hub.used("clients")], [0, 1, 1]);
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
        client.charge("fill", { [resource]: 10, [resource === "leases" ? "objects" : "leases"]: 3 });
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

  it("may be filled to its limit exactly", () => {
    const { client } = chain({ client: { leases: 2 } });
    client.charge("open", { leases: 2 });
    assert.equal(client.used("leases"), 2);
  });

  it("takes what is there already also over its limit, and then gives nothing more", () => {
    const { client, hub } = chain({ hub: { objects: 1 } });
    client.take({ objects: 5 });
    assert.equal(hub.used("objects"), 5);
    assert.throws(() => client.charge("create", { objects: 1 }), { code: "LIMIT_EXCEEDED" });
    client.charge("open", { leases: 1 });
  });

  it("can pass on to nobody in particular what it had", () => {
    const { client, user, hub } = chain({});
    client.charge("create", { objects: 1 });
    client.refundHere({ objects: 1 });
    assert.deepEqual([client.used("objects"), user.used("objects"), hub.used("objects")], [0, 1, 1]);
    client.takeHere({ objects: 1 });
    assert.deepEqual([client.used("objects"), user.used("objects")], [1, 1]);
  });

  it("never has less than nothing", () => {
    assert.throws(() => chain({}).client.refund({ leases: 1 }), RangeError);
  });
});

describe("the rate of messages", () => {
  it("is that of the account that has to wait longest, which is named", () => {
    const { client, user } = chain({ client: { messagesPerSecond: 2 }, user: { messagesPerSecond: 1 } });
    assert.deepEqual(client.countMessage(0), { waitMs: 0, exceeded: undefined });
    assert.deepEqual(client.countMessage(0), { waitMs: 1000, exceeded: user });
    assert.deepEqual(client.countMessage(1000), { waitMs: 0, exceeded: undefined });
  });

  it("is that of one further up where that has to wait longer", () => {
    const { client, user } = chain({ client: { messagesPerSecond: 2 }, user: { messagesPerSecond: 3 } });
    const sibling = new Account("client", "another client", unlimited, user);
    for (const one of [client, client, sibling]) assert.equal(one.countMessage(0).waitMs, 0);
    assert.equal(sibling.countMessage(400).waitMs, 0);
    const { waitMs, exceeded } = client.countMessage(400);
    assert.deepEqual([exceeded, Math.round(waitMs)], [user, 267]);
  });

  it("of others is not used up by messages that are refused", () => {
    const { hub, user, client } = chain({ user: { messagesPerSecond: 1 }, hub: { messagesPerSecond: 3 } });
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
