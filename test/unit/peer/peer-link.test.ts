import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Deadline } from "../../../src/base/deadline.js";
import { hasCode } from "../../../src/base/errors.js";
import type { SeqpacketSocket } from "../../../src/os/seqpacket.js";
import { SeqpacketListener } from "../../../src/os/seqpacket-listener.js";
import { PeerLink } from "../../../src/peer/peer-link.js";
import { checkLeaks } from "../../support/leak-check.js";
import { TestFolder } from "../../support/test-folder.js";

describe("PeerLink", () => {
  checkLeaks();

  const deadline = () => new Deadline("hear from the other side", {}, 30_000);

  it("close() closes the descriptors of unread messages", async () => {
    using folder = new TestFolder();
    const listener = SeqpacketListener.listen(folder.file("x.sock"));
    const link = PeerLink.connect(folder.file("x.sock"));
    const server = listener.tryAccept() as SeqpacketSocket;
    for (const text of ["first", "second", "third"]) server.trySend(Buffer.from(text), [server.fd]);
    // WHY all messages arrive with the first: they are read from the socket together.
    const { bytes, fds } = await link.receive(deadline());
    assert.equal(Buffer.from(bytes).toString(), "first");
    for (const fd of fds) fd.close();
    link.close();
    await assert.rejects(link.receive(deadline()), (error) => hasCode(error, "CLOSED"));
    server.close();
    listener.close();
  });
});
