/** `cuda-ipc disconnect` against real clients. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { describe, it } from "node:test";
import { hasCode } from "../../../src/base/errors.js";
import { connect } from "../../../src/client/connect.js";
import { CliRig, eventually, LAUNCH } from "./cli-rig.js";

interface Client {
  readonly program: string;
  readonly session: number;
  readonly leases: number;
}

async function clientsOf(rig: CliRig): Promise<readonly Client[]> {
  return (await rig.json<{ clients: Client[] }>("top")).clients;
}

async function sessionOf(rig: CliRig, wanted: string): Promise<string> {
  const found = (await clientsOf(rig)).find(({ program }) => program === wanted);
  assert.ok(found !== undefined, wanted);
  return String(found.session);
}

const disconnected = (error: unknown) => hasCode(error, "DISCONNECTED");

describe("cuda-ipc disconnect", () => {
  it("ends a reader's waits, and no writer waits for it any more", async () => {
    await using rig = await CliRig.open();
    const join = (program: string) => connect({ socket: rig.socket, device: "host", program });
    await using writing = await join("writer");
    await using stuck = await join("stuck");
    await using idle = await join("idle");
    using writer = await writing.createChannel("frames", { dtype: "uint8", shape: [8], slots: 2 });
    using waiting = await idle.openChannel("frames");
    using reader = await stuck.openChannel("frames");
    const wait = assert.rejects(waiting.next(), disconnected);
    const first = await rig.ok("disconnect", await sessionOf(rig, "idle"));
    assert.equal(first, `Disconnected idle ${process.pid}.\n`);
    await wait;
    assert.throws(() => waiting.tryNext(), disconnected);
    await assert.rejects(idle.list(), disconnected);
    for (let i = 0; i < 2; i += 1) {
      using slot = await writer.loan();
      await slot.commit();
    }
    assert.equal(writer.tryLoan(), undefined, "the channel is full");
    const loan = writer.loan();
    await rig.ok("disconnect", await sessionOf(rig, "stuck"));
    using slot = await loan;
    await slot.commit();
    await eventually("the reader knows", () => !reader.open || undefined);
    // The clients have come back once, to say that nothing of their sessions is in use.
    await eventually("the leases have ended", async () => {
      const left = await clientsOf(rig);
      return left.every(({ program }) => program === "writer") || undefined;
    });
  });

  it("ends a reader whose open was answered just before", async () => {
    await using rig = await CliRig.open();
    const join = (program: string) => connect({ socket: rig.socket, device: "host", program });
    await using writing = await join("writer");
    await using late = await join("late");
    using _ = await writing.createChannel("frames", { dtype: "uint8", shape: [8], slots: 2 });
    const session = await sessionOf(rig, "late");
    const reading = late.openChannel("frames").then((reader) => reader.next({ timeoutMs: 60_000 }));
    for (let step = 0; step < 100; step += 1) await Promise.resolve();
    // WHY it blocks: the answer and the end then arrive in one turn of the event loop.
    execFileSync(process.execPath, [LAUNCH, "disconnect", session], { env: rig.env });
    await assert.rejects(reading, disconnected);
  });

  it("leaves a channel to its next writer, and mapped memory usable", async () => {
    await using rig = await CliRig.open();
    const join = (program: string) => connect({ socket: rig.socket, device: "host", program });
    await using owning = await join("owner");
    await using other = await join("other");
    const policy = { slots: 4, whenWriterGone: "wait" } as const;
    using writer = await owning.createChannel("c", { dtype: "uint8", shape: [8], ...policy });
    using array = await owning.put("values", Uint8Array.of(1, 2, 3));
    using reader = await other.openChannel("c");
    await rig.ok("disconnect", await sessionOf(rig, "owner"));
    using next = await other.resumeChannel("c");
    assert.throws(() => writer.tryLoan(), disconnected);
    using slot = await next.loan();
    await slot.commit();
    assert.ok((await reader.next()) !== undefined);
    assert.deepEqual(await array.read(), Uint8Array.of(1, 2, 3));
  });

  it("says which client it does not know, and goes on with the next one", async () => {
    await using rig = await CliRig.open();
    await using hub = await rig.join();
    const { code, stdout, stderr } = await rig.run("disconnect", "1", String(process.pid));
    assert.equal(code, 1);
    assert.match(stderr, /Cannot disconnect 1: you see no client of the hub with this number/);
    assert.match(stdout, new RegExp(`^Disconnected .* ${process.pid}\\.$`, "m"));
    await assert.rejects(hub.list(), disconnected);
    assert.equal((await rig.run("disconnect", "x")).code, 2);
  });
});
