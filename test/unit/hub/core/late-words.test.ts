/** A hub whose words are written later: the core waits with the answers that need them. */
import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import { CudaIpcError } from "../../../../src/base/errors.js";
import { HUB_UID } from "../../../support/core-rig.js";
import { channelOf, hostArray } from "../../../support/messages.js";
import { begin, create, OBSERVER, open, READER, rig, WRITER, writerLease } from "./channel-rig.js";

beforeEach(begin);

const answersOf = (request: number) =>
  rig.answered.filter(({ reply }) => reply.id === request).map(({ reply }) => reply.ok);

function writeAll(failure?: CudaIpcError): void {
  for (const { act } of rig.late?.splice(0) ?? []) act(failure);
}

describe("an open while words of the channel are unwritten", () => {
  it("as a reader is answered once its seat is written", () => {
    create();
    rig.late = [];
    const request = rig.send(2, "open", { name: "c", ...READER });
    assert.deepEqual(answersOf(request), []);
    assert.deepEqual(
      rig.late.map(({ user }) => user),
      [HUB_UID],
    );
    writeAll();
    assert.deepEqual(answersOf(request), [true]);
    assert.equal(rig.answered.at(-1)?.fds.length, 5);
  });

  it("as a reader is refused, and leaves its seat, if its seat cannot be written", () => {
    create();
    rig.late = [];
    const request = rig.send(2, "open", { name: "c", ...READER });
    writeAll(new CudaIpcError("OUT_OF_MEMORY", "Cannot write: no page is left"));
    assert.deepEqual(answersOf(request), [false]);
    assert.equal(rig.result(1, "status", {}).leases, 1);
  });

  it("as the next writer is answered once the end of the last one is written", () => {
    create({ whenWriterGone: "wait" });
    open(3);
    rig.result(1, "release", { lease: writerLease });
    rig.late = [];
    const request = rig.send(2, "open", { name: "c", ...WRITER });
    assert.deepEqual(answersOf(request), []);
    writeAll(new CudaIpcError("OUT_OF_MEMORY", "Cannot write: no page is left"));
    assert.deepEqual(answersOf(request), [true]);
  });

  it("as an observer is answered at once", () => {
    create();
    rig.late = [];
    open(2, OBSERVER);
  });

  it("is not answered if its process has ended meanwhile", () => {
    create();
    rig.late = [];
    const request = rig.send(2, "open", { name: "c", ...READER });
    rig.core.hungUp(2);
    rig.core.processEnded(2);
    writeAll();
    assert.deepEqual(
      answersOf(request).filter((ok) => ok),
      [],
    );
    assert.equal(rig.result(1, "status", {}).leases, 1);
  });
});

describe("a user with too many unwritten words", () => {
  const failure = () => new CudaIpcError("LIMIT_EXCEEDED", "Cannot: too many writes wait");

  it("gets no channel and no seat, but arrays", () => {
    create();
    rig.unwrittenFailure = failure();
    assert.equal(rig.failure(2, "open", { name: "c", ...READER }), "LIMIT_EXCEEDED");
    rig.unwrittenFailure = failure();
    const descriptor = channelOf();
    const fields = { name: "d", lifetime: "held", descriptor } as const;
    const fds = rig.channelFds(descriptor.content);
    assert.equal(rig.failure(1, "create", fields, fds), "LIMIT_EXCEEDED");
    rig.unwrittenFailure = failure();
    const array = { name: "e", lifetime: "held", descriptor: hostArray } as const;
    rig.result(1, "create", array, [rig.fd()]);
  });
});
