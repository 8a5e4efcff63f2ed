/** UCX for real. ALONE: libucp changes the process that loads it. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { probeUcx } from "../../../src/ucx/probe-ucx.js";
import { transportsIn, UcxContext } from "../../../src/ucx/ucx-context.js";
import { startedBy, ucxError } from "../../../src/ucx/ucx-status.js";
import { memoryOf, UcxWorker } from "../../../src/ucx/ucx-worker.js";
import { skipWithoutUcx } from "../../support/machines/engines.js";
import { until } from "../../support/until.js";

process.env.UCX_TLS = "tcp";

const outside = (byteLength: number) => new Uint8Array(new ArrayBuffer(byteLength));

describe("a worker of UCX", { skip: skipWithoutUcx() }, () => {
  let context: UcxContext;
  before(() => {
    context = UcxContext.open("lo");
  });
  after(() => context?.close());

  function connected() {
    const one = UcxWorker.create(context);
    const other = UcxWorker.create(context);
    const failures: string[] = [];
    one.connect(other.address, ({ code }) => failures.push(code));
    other.connect(one.address, ({ code }) => failures.push(code));
    return { one, other, failures };
  }

  it("carries messages of any size, whichever side is first", async () => {
    const { one, other } = connected();
    for (const byteLength of [0, 1, 8000, 300_000, 5_000_000]) {
      const sent = outside(byteLength).map((_, i) => i % 251);
      const early = outside(byteLength);
      const receive = other.receive(memoryOf(early), 5n);
      await one.send(memoryOf(sent), 5n);
      assert.equal(await receive.byteLength, byteLength);
      assert.ok(Buffer.from(early).equals(Buffer.from(sent)));
      const sending = one.send(memoryOf(sent), 6n);
      const late = outside(byteLength + 10);
      assert.equal(await other.receive(memoryOf(late), 6n).byteLength, byteLength);
      await sending;
    }
    one.close();
    other.close();
  });

  it("keeps messages with other tags apart, and refuses one that is too long", async () => {
    const { one, other } = connected();
    await one.send(memoryOf(outside(3).fill(1)), 1n);
    await one.send(memoryOf(outside(3).fill(2)), 0xffff_ffff_ffff_fff2n);
    const second = outside(3);
    await other.receive(memoryOf(second), 0xffff_ffff_ffff_fff2n).byteLength;
    assert.deepEqual([...second], [2, 2, 2]);
    await assert.rejects(other.receive(memoryOf(outside(2)), 1n).byteLength, {
      code: "INVALID_MESSAGE",
    });
    one.close();
    other.close();
  });

  it("ends a receive that is cancelled, or whose worker is closed", async () => {
    const { one, other } = connected();
    const cancelled = other.receive(memoryOf(outside(3)), 1n);
    cancelled.cancel();
    await assert.rejects(cancelled.byteLength, { code: "ABORTED" });
    cancelled.cancel();
    const left = other.receive(memoryOf(outside(3)), 2n);
    other.close();
    other.close();
    await assert.rejects(left.byteLength, { code: /ABORTED|CLOSED/ });
    assert.throws(() => other.receive(memoryOf(outside(3)), 3n), { code: "CLOSED" });
    one.close();
  });

  it("cancels no later receive that has the number of an earlier one", async () => {
    const { one, other } = connected();
    for (let round = 0; round < 20; round += 1) {
      const earlier = other.receive(memoryOf(outside(8)), 9n);
      await one.send(memoryOf(outside(8)), 9n);
      await earlier.byteLength;
      const later = other.receive(memoryOf(outside(8)), 9n);
      earlier.cancel();
      await one.send(memoryOf(outside(8)), 9n);
      assert.equal(await later.byteLength, 8);
    }
    one.close();
    other.close();
  });

  it("drops messages that nothing waits for, so that their senders go on", async () => {
    const { one, other } = connected();
    const bits = 1n << 63n;
    other.dropUnasked(bits);
    const cancelled = other.receive(memoryOf(outside(5_000_000)), bits | 1n);
    cancelled.cancel();
    await assert.rejects(cancelled.byteLength, { code: "ABORTED" });
    for (const byteLength of [0, 1, 8000, 5_000_000])
      await one.send(memoryOf(outside(byteLength)), bits | 1n);
    const kept = other.receive(memoryOf(outside(3)), bits | 1n);
    await one.send(memoryOf(outside(3)), bits | 1n);
    assert.equal(await kept.byteLength, 3);
    await one.send(memoryOf(outside(4)), 1n);
    assert.equal(await other.receive(memoryOf(outside(4)), 1n).byteLength, 4);
    one.close();
    other.close();
  });

  it("says that the other side is gone", async () => {
    const { one, other, failures } = connected();
    const receive = other.receive(memoryOf(outside(1)), 1n);
    await one.send(memoryOf(outside(1)), 1n);
    await receive.byteLength;
    one.close();
    await until("the failure is told", () => failures.length > 0);
    assert.deepEqual(failures, ["PEER_GONE"]);
    await assert.rejects(other.send(memoryOf(outside(5_000_000)), 2n), { code: "PEER_GONE" });
    other.close();
  });

  it("sleeps while nothing happens", async () => {
    const { one, other } = connected();
    const receive = other.receive(memoryOf(outside(1)), 1n);
    await one.send(memoryOf(outside(1)), 1n);
    await receive.byteLength;
    await new Promise((resolve) => setTimeout(resolve, 300));
    const before = process.cpuUsage();
    await new Promise((resolve) => setTimeout(resolve, 1000));
    const { user, system } = process.cpuUsage(before);
    // A busy loop would take all of the second.
    assert.ok(user + system < 200_000, `${user + system} us`);
    one.close();
    other.close();
  });

  it("is tried by the doctor", async () => {
    const { version, transports } = await probeUcx("lo");
    assert.match(version, /^1\.\d+\.\d+$/);
    assert.deepEqual(transports, ["tcp/lo"]);
  });
});

describe("UcxContext.open()", { skip: skipWithoutUcx() }, () => {
  const wrong: readonly (readonly [string, string, string, RegExp])[] = [
    ["UCX_TLS", "", "UNSUPPORTED", /UCX_TLS.*UCX_NET_DEVICES/],
    ["UCX_TLS", "none", "UNSUPPORTED", /UCX_TLS.*UCX_NET_DEVICES/],
    ["UCX_NET_DEVICES", "none0", "UNSUPPORTED", /UCX_TLS.*UCX_NET_DEVICES/],
    ["UCX_RNDV_THRESH", "much", "SYSTEM_ERROR", /variable.*UCX_/],
  ];
  for (const [name, value, code, remedy] of wrong)
    it(`says which variables to check if ${name} is "${value}"`, () => {
      const before = process.env[name];
      process.env[name] = value;
      try {
        assert.throws(() => UcxContext.open(), { code, remedy });
      } finally {
        if (before === undefined) delete process.env[name];
        else process.env[name] = before;
      }
    });
});

describe("UcxContext.open() with an interface", { skip: skipWithoutUcx() }, () => {
  it("uses no other network, whatever UCX_NET_DEVICES says", () => {
    const before = process.env.UCX_NET_DEVICES;
    process.env.UCX_NET_DEVICES = "none0";
    try {
      using context = UcxContext.open("lo");
      assert.deepEqual(context.transports(), ["tcp/lo"]);
    } finally {
      if (before === undefined) delete process.env.UCX_NET_DEVICES;
      else process.env.UCX_NET_DEVICES = before;
    }
  });

  it("refuses one that it cannot use, also if it has shared memory", () => {
    const before = process.env.UCX_TLS;
    delete process.env.UCX_TLS;
    try {
      for (const name of ["none0", "^lo", "lo,none0"])
        assert.throws(
          () => UcxContext.open(name),
          (error: Error & { code?: string }) => {
            assert.equal(error.code, "UNSUPPORTED");
            assert.ok(error.message.includes(`Cannot use the interface "${name}"`), error.message);
            return true;
          },
        );
    } finally {
      process.env.UCX_TLS = before;
    }
  });
});

describe("what UCX returns", () => {
  it("is done, a failure or a request", () => {
    assert.deepEqual(startedBy(0), { state: "done" });
    assert.deepEqual(startedBy(0xffff_ffff_ffff_ffe7n), { state: "failed", status: -25 });
    assert.deepEqual(startedBy(0x7f00_1234n), { state: "pending", request: 0x7f00_1234n });
  });

  it("becomes an error with a code", () => {
    assert.equal(ucxError("x", -25).code, "PEER_GONE");
    assert.equal(ucxError("x", -80).code, "PEER_GONE");
    assert.equal(ucxError("x", -4).code, "OUT_OF_MEMORY");
    assert.match(ucxError("x", -6).remedy, /UCX_TLS/);
    assert.match(ucxError("x", -47).message, /status -47/);
  });

  it("has transports in the text that it prints", () => {
    const text =
      "#            resource 0  :  md 0  dev 0  flags -- self/memory\n" +
      "#            resource 1  :  md 1  dev 1  flags -- tcp/eth0\n# memory: 0.84MB, fd: 3\n";
    assert.deepEqual(transportsIn(text), ["self/memory", "tcp/eth0"]);
    assert.deepEqual(transportsIn("nothing"), []);
  });
});
