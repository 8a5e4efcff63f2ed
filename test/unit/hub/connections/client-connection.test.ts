import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { constants } from "node:os";
import { describe, it } from "node:test";
import type { SystemError } from "../../../../src/base/errors.js";
import { interceptLibc } from "../../../../src/ffi/intercept-libc.js";
import { ClientConnection } from "../../../../src/hub/connections/client-connection.js";
import { UnreadDescriptors } from "../../../../src/hub/connections/unread-descriptors.js";
import { UserTurns } from "../../../../src/hub/connections/user-turns.js";
import type { UserGate } from "../../../../src/hub/gate/descriptor-gate.js";
import { unlimitedQuota } from "../../../../src/hub/limits/policy.js";
import { Account } from "../../../../src/hub/limits/quota.js";
import { createMemoryFile } from "../../../../src/os/memory-file.js";
import { openPidfd, ProcessWatch } from "../../../../src/os/process-watch.js";
import { SeqpacketSocket } from "../../../../src/os/seqpacket.js";
import { peerOf } from "../../../support/core-rig.js";
import { checkLeaks } from "../../../support/leak-check.js";
import { soon, until } from "../../../support/until.js";

describe("ClientConnection", () => {
  checkLeaks();

  it("handles the last messages of a process whose end is noticed first", async () => {
    const child = spawn("sleep", ["60"]);
    const pid = child.pid as number;
    const [near, far] = SeqpacketSocket.pair();
    const heard: string[] = [];
    const gone = new Promise<void>((resolve) => {
      ClientConnection.start(
        near,
        openPidfd(pid),
        peerOf(pid),
        {
          onPacket: ({ bytes }) => heard.push(new TextDecoder().decode(bytes)),
          onHangUp: () => heard.push("hung up"),
          onGone: resolve,
          onReleaseFailure: assert.ifError,
        },
        shared(),
      );
    });
    endAtOnce(pid);
    // WHY in the same turn, after the end: the event loop then learns of the end first.
    far.trySend(new TextEncoder().encode("last words"));
    far.close();
    await soon("the session ends", gone);
    assert.deepEqual(heard, ["last words", "hung up"]);
  });

  it("ends although another process goes on sending on the socket of a dead client", async () => {
    const child = spawn("sleep", ["60"]);
    const pid = child.pid as number;
    const [near, far] = SeqpacketSocket.pair();
    let heard = 0;
    const gone = new Promise<void>((resolve) => {
      const events = {
        onPacket: () => {
          heard += 1;
          far.trySend(new TextEncoder().encode("another"));
        },
        onHangUp: () => {},
        onGone: resolve,
        onReleaseFailure: assert.ifError,
      };
      ClientConnection.start(near, openPidfd(pid), peerOf(pid), events, shared());
    });
    endAtOnce(pid);
    far.trySend(new TextEncoder().encode("first"));
    await soon("the session ends", gone);
    assert.ok(heard > 1000, String(heard));
    far.close();
  });

  it("hangs up and reports the failure if its socket cannot be closed", async () => {
    const [near, far] = SeqpacketSocket.pair();
    const { number } = near.fd;
    const failures: unknown[] = [];
    const gone = new Promise<void>((resolve) => {
      const session = ClientConnection.start(
        near,
        undefined,
        peerOf(1),
        {
          onPacket: () => {},
          onHangUp: () => {},
          onGone: resolve,
          onReleaseFailure: (error) => failures.push(error),
        },
        shared(),
      );
      const undo = interceptLibc((call, [fd]) =>
        call === "close" && fd === number ? constants.errno.EIO : undefined,
      );
      try {
        session.hangUp();
      } finally {
        undo();
      }
    });
    await soon("the end is reported", gone);
    assert.deepEqual(
      failures.map((error) => (error as SystemError).errnoName),
      ["EIO"],
    );
    far.close();
  });

  it("handles what the gate has received when it may read again after a pause", async () => {
    const [near, far] = SeqpacketSocket.pair();
    const heard: string[] = [];
    const gate: UserGate = {
      receive: (socket, sink) => {
        for (let packet = socket.tryReceive(); packet; packet = socket.tryReceive())
          if (packet !== "end") sink.onPacket(packet);
        setImmediate(() => sink.onDone(undefined));
      },
      closeSocket: (socket) => socket.close(),
    };
    const connection = ClientConnection.start(
      near,
      openPidfd(process.pid),
      peerOf(process.pid),
      {
        onPacket: ({ bytes, fds }) => {
          heard.push(new TextDecoder().decode(bytes));
          for (const fd of fds) fd.close();
          connection.pause(1);
        },
        onHangUp: () => {},
        onGone: () => {},
        onReleaseFailure: assert.ifError,
      },
      { ...shared(), gate },
    );
    using memory = createMemoryFile("memory", 4096);
    for (const word of ["first", "second", "third"]) far.trySend(Buffer.from(word), [memory]);
    try {
      await until("all are handled", () => heard.length === 3);
      assert.deepEqual(heard, ["first", "second", "third"]);
    } finally {
      connection.forget();
      far.close();
    }
  });

  it("of an unseen process ends if the process does not come back in time", (t) => {
    t.mock.timers.enable({ apis: ["setTimeout"] });
    const told: string[] = [];
    const events = (name: string) => ({
      onPacket: () => told.push(`${name}: packet`),
      onHangUp: () => told.push(`${name}: hung up`),
      onGone: () => told.push(`${name}: gone`),
      onReleaseFailure: assert.ifError,
    });
    ClientConnection.expect(peerOf(0), 1000, events("stays away"), shared());
    const back = ClientConnection.expect(peerOf(0), 1000, events("comes back"), shared());
    t.mock.timers.tick(999);
    back.forget();
    assert.deepEqual(told, []);
    t.mock.timers.tick(1000);
    assert.deepEqual(told, ["stays away: gone"]);
  });
});

function shared() {
  const account = new Account("client", "this client", unlimitedQuota);
  const gate: UserGate = {
    receive: () => assert.fail("no descriptors are sent"),
    closeSocket: (socket) => socket.close(),
  };
  return { turns: new UserTurns(assert.ifError), unread: new UnreadDescriptors(), account, gate };
}

/** Kills a process and waits for its end without giving the event loop a turn. */
function endAtOnce(pid: number): void {
  const pidfd = openPidfd(pid);
  assert.ok(pidfd !== undefined);
  const watch = new ProcessWatch(pidfd, () => {});
  process.kill(pid, "SIGKILL");
  while (!watch.exited);
  watch.close();
}
