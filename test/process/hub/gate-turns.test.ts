/** The gate receives for all users. A user who sends much does not delay the others. */
import assert from "node:assert/strict";
import { statSync, writeFileSync } from "node:fs";
import { describe, it } from "node:test";
import { limits } from "../../../src/base/limits.js";
import { DescriptorGate } from "../../../src/hub/gate/descriptor-gate.js";
import { createMemoryFile } from "../../../src/os/memory-file.js";
import { SeqpacketSocket } from "../../../src/os/seqpacket.js";
import { checkLeaks } from "../../support/leak-check.js";
import { TestFolder } from "../../support/test-folder.js";
import { until } from "../../support/until.js";

const SENDERS = 40;
const MESSAGES_EACH = 4;
/** Longer than a gate may be silent. */
const STOPPED_MS = 4000;
const [CROWD, OTHER] = [1, 2];

/** A socket with waiting messages, each with descriptors. */
function sent(
  messages: number,
  fdsEach: number,
): { readonly sender: SeqpacketSocket; readonly socket: SeqpacketSocket } {
  const [sender, socket] = SeqpacketSocket.pair();
  using memory = createMemoryFile("test", 4096);
  const fds = Array.from({ length: fdsEach }, () => memory);
  for (let count = 0; count < messages; count += 1)
    assert.ok(sender.trySend(Buffer.from("x"), fds));
  return { sender, socket };
}

describe("the requests of a gate", () => {
  checkLeaks();

  it("of a user with many do not delay another user's", async () => {
    const gate = new DescriptorGate(() => {});
    const pairs = Array.from({ length: SENDERS }, () =>
      sent(MESSAGES_EACH, limits.scmRightsFdsMax),
    );
    const other = sent(1, 1);
    const done: number[] = [];
    let received = 0;
    const receive = (uid: number, socket: SeqpacketSocket) => {
      gate.of(uid).receive(socket, {
        onPacket: ({ fds }) => {
          received += 1;
          for (const fd of fds) fd.close();
        },
        onDone: (failure) => {
          assert.equal(failure, undefined);
          done.push(uid);
          if (socket.look() === "descriptors") receive(uid, socket);
        },
      });
    };
    for (const { socket } of pairs) receive(CROWD, socket);
    receive(OTHER, other.socket);
    await until(
      "all was received",
      () => received === SENDERS * MESSAGES_EACH + 1 && done.includes(OTHER),
    );
    assert.ok(done.indexOf(OTHER) <= 2, `${done.indexOf(OTHER)} orders came first`);
    assert.equal(
      done.length,
      SENDERS * MESSAGES_EACH + 1,
      "one message for each order, since it is so large",
    );
    gate.close();
    for (const { sender, socket } of [...pairs, other])
      for (const one of [sender, socket]) one.close();
  });

  it("that wait when the hub ends fail with CLOSED", async () => {
    const gate = new DescriptorGate(() => {});
    const pairs = Array.from({ length: 5 }, () => sent(1, 1));
    const codes: unknown[] = [];
    for (const { socket } of pairs) {
      gate.of(CROWD).receive(socket, {
        onPacket: () => assert.fail("nothing is received"),
        onDone: (failure) => codes.push(failure?.code),
      });
    }
    gate.close();
    assert.deepEqual(codes, Array(5).fill("CLOSED"));
    for (const { sender, socket } of pairs) for (const one of [sender, socket]) one.close();
  });

  it("are answered although the hub itself did not run for longer than a gate may be silent", async () => {
    const gate = new DescriptorGate(() => {});
    const { sender, socket } = sent(1, 1);
    const failures: unknown[] = [];
    const receive = () =>
      gate.of(OTHER).receive(socket, {
        onPacket: ({ fds }) => {
          for (const fd of fds) fd.close();
        },
        onDone: (failure) => failures.push(failure),
      });
    try {
      receive();
      await until("the gate serves", () => failures.length === 1);
      using memory = createMemoryFile("test", 4096);
      assert.ok(sender.trySend(Buffer.from("x"), [memory]));
      receive();
      // As if the hub were stopped. The gate answers meanwhile.
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, STOPPED_MS);
      await until("the order is done", () => failures.length === 2);
      assert.deepEqual(failures, [undefined, undefined]);
    } finally {
      for (const one of [sender, socket, gate]) one.close();
    }
  });

  it("are refused with the gate's error, without a new gate each, if gates die at once", async () => {
    using folder = new TestFolder();
    const { execPath } = process;
    const starts = folder.file("starts");
    const dies = `echo >> ${starts}; echo "Error [X]: no valibot" >&2; echo "Node.js" >&2; exit 1`;
    writeFileSync(starts, "");
    writeFileSync(folder.file("node"), `#!/bin/sh\n${dies}\n`, { mode: 0o700 });
    const gate = new DescriptorGate(() => {});
    const { sender, socket } = sent(1, 1);
    const receive = () =>
      new Promise<string | undefined>((resolve) => {
        const onDone = (failure: Error | undefined) => resolve(failure?.message);
        gate.of(OTHER).receive(socket, { onPacket: () => assert.fail("nothing comes"), onDone });
      });
    // Nothing of a gate keeps a process alive.
    const alive = setInterval(() => {}, 1000);
    process.execPath = folder.file("node");
    try {
      await until("an order is refused without a start", async () => {
        const before = statSync(starts).size;
        const failure = await receive();
        assert.match(failure ?? "", /: it ended at once: Error \[X\]: no valibot$/);
        return statSync(starts).size === before;
      });
    } finally {
      process.execPath = execPath;
      clearInterval(alive);
      for (const one of [sender, socket, gate]) one.close();
    }
  });
});
