/** Memory by a descriptor on a Unix socket: the exchange with C programs, and what they do wrong. */
import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import type { ErrorCode } from "../../../src/base/error-codes.js";
import { hasCode } from "../../../src/base/errors.js";
import {
  DeviceBuffer,
  receiveFd,
  sendFd,
  UnixListener,
  UnixSocket,
} from "../../../src/doors/interop.js";
import { Device } from "../../../src/index.js";
import { type CProcess, CProgram } from "../../support/c-program.js";
import { checkLeaks } from "../../support/leak-check.js";
import { TestFolder } from "../../support/test-folder.js";
import { describePassedFds } from "./describe-passed-fds.js";

const program = CProgram.compile("process/peer/c/fd-peer.c");
const BYTES = 8192;

describePassedFds({ device: "host", program, byteLength: BYTES, args: ["good"] });

function refusal(code: ErrorCode, words: RegExp): (error: unknown) => boolean {
  return (error) => {
    assert.ok(hasCode(error, code), `wanted ${code}: ${String(error)}`);
    assert.match(error.message, words);
    return true;
  };
}

describe("a C program on a socket", { skip: typeof program === "string" ? program : false }, () => {
  let folder: TestFolder;
  let path: string;
  checkLeaks(() => folder[Symbol.dispose]());
  beforeEach(() => {
    folder = new TestFolder();
    path = folder.file("peer.sock");
  });

  /** A program that connects and does what the mode says. */
  async function connected(
    type: "stream" | "seqpacket",
    mode: string,
    role = "send",
  ): Promise<{ socket: UnixSocket; peer: CProcess }> {
    using listener = UnixListener.listen(path, { type });
    const peer = (program as CProgram).start(type, "connect", path, role, mode);
    return { socket: await listener.accept(), peer };
  }

  const wrong: readonly (readonly [string, string, ErrorCode, RegExp])[] = [
    ["stream", "bare", "INVALID_MESSAGE", /from process \d+: 8 bytes came without a descriptor/],
    ["seqpacket", "bare", "INVALID_MESSAGE", /8 bytes came without a descriptor/],
    ["stream", "two", "INVALID_MESSAGE", /2 descriptors came, wanted 1/],
    ["seqpacket", "two", "INVALID_MESSAGE", /2 descriptors came, wanted 1/],
    ["seqpacket", "empty", "INVALID_MESSAGE", /a message of 0 bytes came, wanted 8/],
    ["seqpacket", "short", "INVALID_MESSAGE", /a message of 4 bytes came, wanted 8/],
    ["stream", "pipe", "INVALID_DESCRIPTOR", /it is of kind "FIFO", wanted a memory file/],
    ["seqpacket", "pipe", "INVALID_DESCRIPTOR", /it is of kind "FIFO", wanted a memory file/],
    ["stream", "file", "INVALID_DESCRIPTOR", /it is of kind "regular file"/],
    ["stream", "half", "PEER_GONE", /it has hung up after 3 of 8 bytes/],
    ["seqpacket", "half", "INVALID_MESSAGE", /a message of 3 bytes came, wanted 8/],
  ];
  for (const [type, mode, code, words] of wrong) {
    it(`that sends "${mode}" over a ${type} socket is refused: ${code}`, async () => {
      const { socket, peer } = await connected(type as "stream", mode);
      using _ = socket;
      await using __ = peer;
      await assert.rejects(receiveFd(socket, { metadataBytes: 8 }), refusal(code, words));
    });
  }

  it("that sends a descriptor without metadata is refused, also if any size is taken", async () => {
    const { socket, peer } = await connected("seqpacket", "empty");
    using _ = socket;
    await using __ = peer;
    const words = /a descriptor came without metadata/;
    await assert.rejects(receiveFd(socket), refusal("INVALID_MESSAGE", words));
  });

  it("that splits the metadata of a stream is waited for", async () => {
    const { socket, peer } = await connected("stream", "split");
    using _ = socket;
    await using __ = peer;
    assert.equal(await peer.says(), "half");
    const receiving = receiveFd(socket, { metadataBytes: 8 });
    peer.goOn();
    const { fd, metadata, kind } = await receiving;
    fd.close();
    assert.deepEqual([kind, new BigUint64Array(metadata.buffer)[0]], ["memory file", 8192n]);
    await socket.send(Uint8Array.of(1));
    assert.equal(await peer.says(), "acknowledged");
  });

  it("that says nothing, or half, is named by the timeout, and half a stream is closed", async () => {
    for (const [mode, words, open] of [
      [
        "silent",
        /receive a descriptor from process \d+: not done within 200 ms; it sent nothing/,
        true,
      ],
      ["stuck", /it sent 3 of 8 bytes/, false],
    ] as const) {
      const { socket, peer } = await connected("stream", mode);
      using _ = socket;
      await using __ = peer;
      await peer.says();
      const late = receiveFd(socket, { metadataBytes: 8, timeoutMs: 200 });
      await assert.rejects(late, refusal("TIMEOUT", words));
      assert.match(String(await late.catch(String)), new RegExp(`process ${peer.pid}:`));
      assert.equal(socket.open, open);
      socket.close();
    }
  });

  it("that is killed before its acknowledgement is reported, and the memory stays", async () => {
    using device = Device.open("host");
    using buffer = DeviceBuffer.allocate(device, BYTES);
    await buffer.write(
      0,
      Uint8Array.from({ length: BYTES }, (_, i) => i % 251),
    );
    using fd = buffer.exportFd();
    for (const type of ["stream", "seqpacket"] as const) {
      const { socket, peer } = await connected(type, "dies", "receive");
      using _ = socket;
      await sendFd(socket, fd, new Uint8Array(new BigUint64Array([BigInt(BYTES)]).buffer));
      assert.equal(await peer.says(), "received");
      const receiving = socket.receive(1);
      peer.kill();
      const words = new RegExp(`from process ${peer.pid}: it has hung up`);
      await assert.rejects(receiving, refusal("PEER_GONE", words));
      await peer.ended();
      const first = new Uint8Array(1);
      await buffer.read(0, first);
      assert.equal(first[0], 42);
      await buffer.write(0, new Uint8Array(1));
    }
  });

  it("whose memory can be resized sends a descriptor that cannot be imported", async () => {
    using device = Device.open("host");
    const { socket, peer } = await connected("stream", "unsealed");
    using _ = socket;
    await using __ = peer;
    using fd = (await receiveFd(socket, { metadataBytes: 8 })).fd;
    assert.throws(
      () => DeviceBuffer.import(device, fd, { byteLength: BYTES }),
      refusal("INVALID_DESCRIPTOR", /sealed size/),
    );
  });

  it("that listens on a socket of the other type is refused: WRONG_KIND", async () => {
    await using peer = (program as CProgram).start("stream", "listen", path, "send", "silent");
    assert.equal(await peer.says(), "listens");
    await assert.rejects(
      UnixSocket.connect(path, { type: "seqpacket" }),
      refusal("WRONG_KIND", /Try \{ type: "stream" \}/),
    );
    assert.throws(
      () => UnixListener.listen(path),
      refusal("NAME_TAKEN", /another process listens/),
    );
    using socket = await UnixSocket.connect(path);
    assert.equal(socket.peer.pid, peer.pid);
  });
});
