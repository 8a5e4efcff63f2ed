/** Memory by a descriptor on a Unix socket, exchanged with a program in C in both directions. */
import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import {
  DeviceBuffer,
  receiveFd,
  sendFd,
  UnixListener,
  UnixSocket,
} from "../../../src/doors/interop.js";
import { Device } from "../../../src/index.js";
import type { CProgram } from "../../support/c-program.js";
import { checkLeaks } from "../../support/leak-check.js";
import { TestFolder } from "../../support/test-folder.js";

export interface PassedFdsSubject {
  readonly device: "host" | "cuda:0";
  readonly program: CProgram | string;
  /** What the memory of the C program has. */
  readonly byteLength: number;
  /** Arguments of the C program after its role. */
  readonly args?: readonly string[];
  readonly skip?: string | false;
}

const types = ["stream", "seqpacket"] as const;

export function describePassedFds(subject: PassedFdsSubject): void {
  const { device: name, program, byteLength, args = [], skip } = subject;
  const why = skip || (typeof program === "string" ? program : false);
  describe(`descriptors over sockets of C programs on ${name}`, { skip: why }, () => {
    let device: Device;
    let folder: TestFolder;
    let path: string;
    checkLeaks(() => {
      device.close();
      folder[Symbol.dispose]();
    });
    beforeEach(() => {
      device = Device.open(name);
      folder = new TestFolder();
      path = folder.file("peer.sock");
    });
    const start = (...all: readonly string[]) => (program as CProgram).start(...all, ...args);
    const content = Uint8Array.from({ length: byteLength }, (_, i) => i % 251);

    for (const type of types) {
      it(`arrive over a ${type} socket with their size, and are acknowledged`, async () => {
        const connecting = UnixSocket.connect(path, { type });
        await using producer = start(type, "listen", path, "send");
        assert.equal(await producer.says(), "listens");
        using socket = await connecting;
        assert.equal(socket.peer.pid, producer.pid);
        const { fd, metadata } = await receiveFd(socket, { metadataBytes: 8 });
        using memory = fd;
        assert.equal(Number(new DataView(metadata.buffer).getBigUint64(0, true)), byteLength);
        using buffer = DeviceBuffer.import(device, memory, { byteLength, access: "read-write" });
        const bytes = new Uint8Array(byteLength);
        await buffer.read(0, bytes);
        assert.deepEqual(bytes, content);
        assert.ok(buffer.imported);
        await buffer.write(0, Uint8Array.of(42));
        await socket.send(Uint8Array.of(1));
        assert.equal(await producer.says(), "acknowledged");
        assert.equal(await producer.ended(), "0");
      });

      it(`are sent over a ${type} socket with their size, and acknowledged`, async () => {
        using buffer = DeviceBuffer.allocate(device, byteLength);
        await buffer.write(0, content);
        using fd = buffer.exportFd();
        using listener = UnixListener.listen(path, { type });
        await using consumer = start(type, "connect", path, "receive");
        using socket = await listener.accept();
        assert.equal(socket.peer.pid, consumer.pid);
        const size = new BigUint64Array([BigInt(byteLength)]);
        await sendFd(socket, fd, new Uint8Array(size.buffer));
        assert.equal(await consumer.says(), "received");
        assert.deepEqual(await socket.receive(1), Uint8Array.from(Buffer.from("a")));
        assert.equal(await consumer.ended(), "0");
        const first = new Uint8Array(1);
        await buffer.read(0, first);
        assert.equal(first[0], 42);
      });
    }
  });
}
