/** Groups whose members are all in this process. test/process/peer/group.test.ts has real ones. */
import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import { Deadline } from "../../../src/base/deadline.js";
import type { ErrorCode } from "../../../src/base/error-codes.js";
import { CudaIpcError, hasCode } from "../../../src/base/errors.js";
import { limits } from "../../../src/base/limits.js";
import { ownIdentity } from "../../../src/os/process-identity.js";
import { SeqpacketSocket } from "../../../src/os/seqpacket.js";
import { Group, type GroupOptions } from "../../../src/peer/group.js";
import { joinHost } from "../../../src/peer/group-formation.js";
import { PeerClient } from "../../../src/peer/peer-listener.js";
import { Disposables } from "../../support/disposables.js";
import { checkLeaks } from "../../support/leak-check.js";
import { TestRuntime } from "../../support/test-runtime.js";
import { soon, until, untilRejects } from "../../support/until.js";

function code(wanted: ErrorCode, words = /./) {
  return (error: unknown) => hasCode(error, wanted) && words.test(error.message);
}

describe("Group", () => {
  let made = new Disposables();
  let runtime: TestRuntime;
  checkLeaks(() => made.end());
  beforeEach(() => {
    made = new Disposables();
    runtime = made.add(new TestRuntime());
  });

  async function join(
    rank: number,
    size: number,
    more: Partial<GroupOptions> = {},
  ): Promise<Group> {
    return made.add(await Group.join({ name: "test", rank, size, ...more }));
  }

  function form(size: number): Promise<Group[]> {
    return soon(
      "the group forms",
      Promise.all(Array.from({ length: size }, (_, rank) => join(size - 1 - rank, size))),
    ).then((groups) => groups.reverse());
  }

  it("forms in any order of its members, and leaves nothing behind", async () => {
    const groups = await form(4);
    assert.deepEqual(
      groups.map(({ rank, size }) => [rank, size]),
      [0, 1, 2, 3].map((rank) => [rank, 4]),
    );
    for (const group of groups) group.close();
    for (const group of groups) group.close();
    assert.deepEqual(runtime.names(), []);
  });

  it("forms with one member, and at a path", async () => {
    const path = runtime.file("mine.sock");
    const group = await join(0, 1, { name: undefined, path });
    await group.barrier();
    assert.deepEqual(await group.allGather("x"), ["x"]);
  });

  it("lets no member pass a barrier before all have arrived", async () => {
    const [zero, one, two] = (await form(3)) as [Group, Group, Group];
    const passed: number[] = [];
    const waiting = [zero, one].map(async (group) => {
      await group.barrier();
      passed.push(group.rank);
    });
    await new Promise((resolve) => setTimeout(resolve, 20));
    assert.deepEqual(passed, []);
    await Promise.all([two.barrier(), ...waiting]);
    assert.equal(passed.length, 2);
  });

  it("gathers all values in order of ranks, repeatedly, between barriers", async () => {
    const groups = await form(3);
    for (let round = 0; round < 20; round += 1) {
      const values = await Promise.all(
        groups.map((group) => group.allGather({ round, rank: group.rank })),
      );
      for (const found of values)
        assert.deepEqual(
          found,
          [0, 1, 2].map((rank) => ({ round, rank })),
        );
      if (round % 3 === 0) await Promise.all(groups.map((group) => group.barrier()));
    }
    const texts = ["\u0000\ud83d\ude00", "x".repeat(limits.gatherBytesMax - 2), ""];
    const found = await Promise.all(groups.map((group) => group.allGather(texts[group.rank])));
    assert.deepEqual(found, [texts, texts, texts]);
  });

  it("refuses a value that cannot be sent before it waits, and stays usable", async () => {
    const groups = (await form(2)) as [Group, Group];
    await assert.rejects(
      groups[0].allGather("x".repeat(limits.gatherBytesMax - 1)),
      code("MESSAGE_TOO_LARGE"),
    );
    for (const value of [undefined, () => {}, 1n])
      await assert.rejects(groups[0].allGather(value), TypeError);
    assert.deepEqual(await Promise.all(groups.map((group) => group.allGather(group.rank))), [
      [0, 1],
      [0, 1],
    ]);
  });

  it("refuses invalid ranks, sizes and options, and names the option", async () => {
    for (const [rank, size] of [
      [-1, 2],
      [2, 2],
      [0.5, 2],
      [0, 0],
      [0, limits.groupSizeMax + 1],
    ] as const) {
      await assert.rejects(join(rank, size), RangeError);
    }
    await assert.rejects(join(0, 1, { name: undefined }), TypeError);
    // biome-ignore lint/suspicious/noExplicitAny: mistakes that plain JavaScript allows.
    const any = (value: unknown) => value as any;
    const mistakes: [unknown, RegExp][] = [
      [undefined, /^TypeError: Group\.join\(\) needs options, such as \{ name: "workers"/],
      [{ name: "test", rank: 0 }, /^TypeError: Group\.join\(\) needs the option size/],
      [{ name: "test", rank: "0", size: 1 }, /rank must be/],
      [{ name: 7, rank: 0, size: 1 }, /^TypeError: name must be a string, not 7/],
      [{ name: "test", rank: 0, size: 1, timeoutMS: 5 }, /has no option "timeoutMS".*timeoutMs/],
    ];
    for (const [options, message] of mistakes)
      await assert.rejects(Group.join(any(options)), message);
    const alone = await join(0, 1);
    await assert.rejects(alone.barrier(any({ timeoutMs: "5" })), /^TypeError: timeoutMs must be/);
    await assert.rejects(alone.allGather(1, any({ signal: 1 })), /^TypeError: signal must be/);
    await alone.barrier();
    alone.close();
    await assert.rejects(join(0, 1, { path: "/tmp/x" }), TypeError);
    await assert.rejects(join(0, 1, { name: "../x" }), code("INVALID_NAME"));
    assert.deepEqual(runtime.names(), []);
  });

  it("refuses a duplicate rank, another size and a taken name, and forms all the same", async () => {
    const zero = join(0, 3);
    const one = join(1, 3);
    await assert.rejects(join(1, 2), code("WRONG_KIND", /it is a group of 3/));
    await assert.rejects(join(0, 3), code("NAME_TAKEN"));
    await assert.rejects(
      join(1, 3),
      code("NAME_TAKEN", new RegExp(`process ${process.pid} is rank 1`)),
    );
    const groups = await soon("the group forms", Promise.all([zero, one, join(2, 3)]));
    await assert.rejects(join(2, 3), code("NAME_TAKEN"));
    await Promise.all(groups.map((group) => group.barrier()));
  });

  it("refuses malformed requests to join, and forms all the same", async () => {
    const zero = join(0, 2);
    const requests = [
      '{"v":1,"op":"join","rank":2,"size":2}',
      '{"v":1,"op":"join","rank":-1,"size":2}',
      "x",
    ];
    for (const request of requests) {
      const socket = SeqpacketSocket.connect(runtime.file("group-test.sock"));
      socket.trySend(Buffer.from(request));
      const replies: string[] = [];
      await until("it is turned away", () => {
        const packet = socket.tryReceive();
        if (packet !== undefined && packet !== "end")
          replies.push(Buffer.from(packet.bytes).toString());
        return packet === "end";
      });
      socket.close();
      assert.match(replies.join(), /INVALID_MESSAGE/);
    }
    await soon("the group forms", Promise.all([zero, join(1, 2)]));
  });

  it("throws TIMEOUT and names the missing ranks, and leaves nothing behind", async () => {
    await assert.rejects(
      join(0, 3, { timeoutMs: 5 }),
      code("TIMEOUT", /; of its 3 members, these have not joined: rank 1, rank 2$/),
    );
    await assert.rejects(join(1, 2, { timeoutMs: 5 }), code("TIMEOUT", /no such socket/));
    await assert.rejects(join(0, 2, { signal: AbortSignal.abort() }), code("ABORTED"));
    const controller = new AbortController();
    const joining = join(0, 2, { signal: controller.signal });
    const other = join(1, 2);
    controller.abort();
    await assert.rejects(joining, code("ABORTED"));
    await assert.rejects(
      other,
      (error) => hasCode(error, "BARRIER_BROKEN") || hasCode(error, "PEER_GONE"),
    );
    assert.deepEqual(runtime.names(), []);
  });

  it("gives the rank of a member that gave up before the group formed to another", async () => {
    const zero = join(0, 3);
    await untilRejects(
      code("TIMEOUT", new RegExp(`; rank 0 \\(process ${process.pid}\\) waits for other members`)),
      (timeoutMs) => join(1, 3, { timeoutMs }),
    );
    await soon("the group forms", Promise.all([zero, join(1, 3), join(2, 3)]));
  });

  it("gives the rank of a member that hangs up just as it completes the group to another", async () => {
    const zero = join(0, 2, { timeoutMs: 10_000 });
    const socket = SeqpacketSocket.connect(runtime.file("group-test.sock"));
    const { pid, startTicks, pidNamespace } = ownIdentity();
    const member = { pid, startTicks, pidNamespace };
    socket.trySend(Buffer.from(JSON.stringify({ v: 1, op: "join", rank: 1, size: 2, member })));
    socket.close();
    await soon("the group forms", Promise.all([zero, join(1, 2, { timeoutMs: 10_000 })]));
  });

  it("breaks for the members that rank 0 has told if it cannot tell the others", async (t) => {
    const send = PeerClient.prototype.send;
    let told = 0;
    t.mock.method(
      PeerClient.prototype,
      "send",
      function (this: PeerClient, ...[message, fds]: Parameters<typeof send>) {
        if ("members" in message) told += 1;
        if (told === 2) throw new CudaIpcError("TOO_MANY_FDS", "Cannot send: too many in flight");
        send.call(this, message, fds);
      },
    );
    const limit = { timeoutMs: 20_000 };
    const joins = [0, 1, 2].map((rank) => join(rank, 3, limit));
    const codes = joins.map((joining) => joining.catch((error: CudaIpcError) => error.code));
    assert.deepEqual(await Promise.all(codes), ["TOO_MANY_FDS", "PEER_GONE", "PEER_GONE"]);
  });

  it("breaks for all, for good, if a member times out or its signal aborts", async () => {
    for (const limit of ["time", "signal"]) {
      const [zero, one, two] = (await form(3)) as [Group, Group, Group];
      const waiting = zero.barrier();
      // Not shorter: a wait whose time is up before it begins breaks nothing.
      const options = limit === "time" ? { timeoutMs: 500 } : { signal: AbortSignal.timeout(5) };
      const missing = code(
        "TIMEOUT",
        new RegExp(`; rank 2 \\(process ${process.pid}\\) has not come$`),
      );
      await assert.rejects(one.barrier(options), limit === "time" ? missing : code("ABORTED"));
      const broken = code("BARRIER_BROKEN", /rank 1 .*gave up waiting/);
      await assert.rejects(waiting, broken);
      await assert.rejects(two.barrier(), broken);
      await assert.rejects(zero.allGather(1), broken);
      await assert.rejects(
        one.barrier(),
        code("BARRIER_BROKEN", /this process \(rank 1\) gave up/),
      );
      for (const group of [zero, one, two]) group.close();
    }
  });

  it("stays usable after a wait that never began", async () => {
    const groups = (await form(2)) as [Group, Group];
    await assert.rejects(groups[0].barrier({ timeoutMs: 0 }), code("TIMEOUT"));
    await assert.rejects(groups[0].barrier({ signal: AbortSignal.abort() }), code("ABORTED"));
    await assert.rejects(groups[0].barrier({ timeoutMs: -1 }), RangeError);
    await Promise.all(groups.map((group) => group.barrier()));
  });

  it("tells members that wait for one that left, and leaves others alone", async () => {
    const [zero, one, two] = (await form(3)) as [Group, Group, Group];
    await Promise.all([zero.barrier(), two.barrier(), one.barrier().then(() => one.close())]);
    const left = code("PEER_GONE", new RegExp(`rank 1 \\(process ${process.pid}\\) has left`));
    await assert.rejects(zero.barrier(), left);
    await assert.rejects(two.allGather(1), left);
    await assert.rejects(one.barrier(), code("CLOSED"));
  });

  it("ends the wait of a member that is closed meanwhile", async () => {
    const [zero, one] = (await form(2)) as [Group, Group];
    const waiting = zero.barrier();
    zero.close();
    await assert.rejects(waiting, code("CLOSED"));
    await assert.rejects(one.barrier(), code("PEER_GONE", /rank 0/));
  });

  it("refuses a second wait of a member that already waits", async () => {
    const [zero, one] = (await form(2)) as [Group, Group];
    const waiting = zero.barrier();
    await assert.rejects(zero.barrier(), TypeError);
    await Promise.all([one.barrier(), waiting]);
  });

  it("breaks if one member gathers and another only waits at the barrier", async () => {
    const [zero, one] = (await form(2)) as [Group, Group];
    const broken = code("BARRIER_BROKEN", /rank 1 .*gave no value/);
    await Promise.all([assert.rejects(zero.allGather("x"), broken), one.barrier()]);
    await assert.rejects(one.barrier(), code("BARRIER_BROKEN", /rank 0/));
  });

  it("is broken, and nothing else, by a member that breaks the rules", async () => {
    const path = runtime.file("group-test.sock");
    for (const misdeed of ["arrives where nobody is", "gives what is not JSON"]) {
      const joining = [join(0, 3), join(1, 3)];
      const place = { path, size: 3, label: "the group" };
      const { link, words } = await joinHost(place, 2, new Deadline("join", {}, 30_000));
      words.arrive(1);
      const [zero, one] = (await soon("the others join", Promise.all(joining))) as [Group, Group];
      if (misdeed === "gives what is not JSON") words.give(2, Buffer.from("{"));
      words.arrive(misdeed === "gives what is not JSON" ? 2 : 77);
      const broken = code("BARRIER_BROKEN", /rank 2/);
      await Promise.all([
        assert.rejects(zero.allGather(1), broken),
        assert.rejects(one.allGather(2), broken),
      ]);
      for (const group of [zero, one]) group.close();
      words.close();
      link.close();
    }
  });

  it("does not form if a member gives up after it was admitted", async () => {
    const joining = [join(0, 3), join(1, 3)];
    const place = { path: runtime.file("group-test.sock"), size: 3, label: "the group" };
    const { link, words } = await joinHost(place, 2, new Deadline("join", {}, 30_000));
    words.close();
    link.close();
    const outcomes = await soon("all are told", Promise.allSettled(joining));
    for (const outcome of outcomes) {
      assert.ok(
        outcome.status === "rejected" && hasCode(outcome.reason, "BARRIER_BROKEN"),
        String(outcome.status),
      );
    }
    assert.deepEqual(runtime.names(), []);
  });
});
