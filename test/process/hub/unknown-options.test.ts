/** Every public call refuses an option that it does not know. The API reports list the calls. */
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { describe, it } from "node:test";
import {
  DeviceBuffer,
  Event,
  GrowingArray,
  GrowingBuffer,
  IpcArrayHandle,
  MemoryPool,
  openIpcHandle,
  receiveFd,
  sendFd,
  UnixListener,
  UnixSocket,
} from "../../../src/doors/interop.js";
import { Module, Program } from "../../../src/doors/kernels.js";
import {
  Group,
  offer,
  openShared,
  readHandleFile,
  receiveOffer,
  share,
  writeHandleFile,
} from "../../../src/doors/peer.js";
import { connectService, serve } from "../../../src/doors/service.js";
import { Kernel } from "../../../src/gpu/kernels/kernel.js";
import { connect, Device, DeviceArray, type Hub } from "../../../src/index.js";
import { Disposables } from "../../support/disposables.js";
import { checkLeaks } from "../../support/leak-check.js";
import { TestHub } from "../../support/test-hub.js";

/** An unknown option, beside nothing: calls refuse it before they miss others. */
const odd = { xyzzy: 1 } as never;
const HANDLE = new Uint8Array(64);

/** Methods and functions with options, from the API reports: `Hub.open`, `share`. */
function callsWithOptions(): string[] {
  const calls = new Set<string>();
  for (const file of readdirSync("api")) {
    let owner = "";
    const text = readFileSync(`api/${file}`, "utf8");
    for (const declaration of text.split(/;\n|\{\n|\n\}\n/)) {
      owner = /(?:^|\n)(?:export |declare |abstract )*class (\w+)/.exec(declaration)?.[1] ?? owner;
      const found = /(?:^|\n)(export (?:declare )?function | {4}[\w ]*?)(\w+)(?:<[^(]*>)?\(/.exec(
        declaration,
      );
      if (found === null || !/\b(?:options|input|layout)\??: /.test(declaration)) continue;
      const [, before = "", name = ""] = found;
      calls.add(before.startsWith("export") ? name : `${owner}.${name}`);
    }
  }
  return [...calls];
}

/** Calls whose parameter of this name is of another kind. */
const otherwise: readonly string[] = [
  "CudaIpcError.constructor",
  "SystemError.constructor",
  "DeviceArray.constructor",
  // It hands its options to ReceivedSlot.release.
  "ServiceMessage.release",
];

interface Site {
  readonly hub: Hub;
  readonly path: string;
}

type Attempts = Readonly<Record<string, () => unknown>>;

/** Each call with an unknown option. */
async function attemptsAt({ hub, path }: Site, own: Disposables): Promise<Attempts> {
  const device = own.add(Device.open("host"));
  const array = own.add(DeviceArray.allocate(device, { dtype: "int8", shape: [1] }));
  const { buffer } = array;
  const fd = own.add(buffer.exportFd());
  const stream = own.add(device.createStream());
  const event = own.add(device.createEvent());
  const timeline = own.add(device.createTimeline());
  const pool = own.add(MemoryPool.create(device, { maxBytes: 4096, shared: true }));
  const growing = own.add(GrowingBuffer.create(device, { byteLength: 0, maxByteLength: 4096 }));
  const followed = own.add(share(growing));
  const rows = own.add(GrowingArray.create(device, { dtype: "int8", shape: [0], maxLength: 1 }));
  const offered = own.add(offer(`${path}.offer`, array));
  const shared = own.add(share(array));
  const group = own.add(await Group.join({ path: `${path}.group`, rank: 0, size: 1 }));
  const listener = own.add(UnixListener.listen(`${path}.peer`));
  const socket = own.add(await UnixSocket.connect(`${path}.peer`));
  const writer = own.add(await hub.createChannel("channel", { byteLength: 1, slots: 2 }));
  const idle = own.add(await hub.createChannel("idle", { byteLength: 1 }));
  const reader = own.add(await hub.openChannel("channel"));
  const loaned = own.add(await writer.loan());
  loaned.commit();
  const received = await reader.next();
  const lent = own.add(await writer.loan());
  const published = own.add(await hub.create("array", { dtype: "int8", shape: [1] }));
  const bundle = own.add(await hub.createBundle("bundle", { a: { dtype: "int8", shape: [1] } }));
  const messages = { request: { byteLength: 1 }, reply: { byteLength: 1 } };
  const service = await serve(hub, "service", messages, () => undefined);
  const client = connectService(hub, "service");
  const handle = { dtype: "int8", shape: [1], mechanism: "legacy" } as const;
  const legacy = IpcArrayHandle.of(own.add(DeviceArray.allocate(device, handle)));
  return {
    connect: () => connect(odd),
    "ChannelReader.next": () => reader.next(odd),
    "ChannelWriter.loan": () => idle.loan(odd),
    "ChannelWriter.tryLoan": () => idle.tryLoan(odd),
    "ChannelWriter.waitForReaders": () => writer.waitForReaders(0, odd),
    "Device.createEvent": () => device.createEvent(odd),
    "Device.createTimeline": () => device.createTimeline(odd),
    "Device.importTimeline": () => device.importTimeline(fd, { byteOffset: 0 }, odd),
    "DeviceArray.affine": () => array.affine(1, 1, odd),
    "DeviceArray.allocate": () => DeviceArray.allocate(device, odd),
    "DeviceArray.checksum": () => array.checksum(odd),
    "DeviceArray.clear": () => array.clear(odd),
    "DeviceArray.compare": () => array.compare(array, odd),
    "DeviceArray.copyFrom": () => array.copyFrom(array, odd),
    "DeviceArray.fill": () => array.fill(1, odd),
    "DeviceArray.iota": () => array.iota(0, 1, odd),
    "DeviceArray.read": () => array.read(odd),
    "DeviceArray.statistics": () => array.statistics(odd),
    "DeviceArray.write": () => array.write([1], odd),
    "Hub.create": () => hub.create("x", odd),
    "Hub.createBundle": () => hub.createBundle("x", {}, odd),
    "Hub.createChannel": () => hub.createChannel("x", odd),
    "Hub.inspect": () => hub.inspect("array", odd),
    "Hub.list": () => hub.list(odd),
    "Hub.observeChannel": () => hub.observeChannel("channel", odd),
    "Hub.open": () => hub.open("array", odd),
    "Hub.openAny": () => hub.openAny("array", odd),
    "Hub.openBundle": () => hub.openBundle("bundle", odd),
    "Hub.openChannel": () => hub.openChannel("channel", odd),
    "Hub.remove": () => hub.remove("array", odd),
    "Hub.restart": () => hub.restart(odd),
    "Hub.resumeChannel": () => hub.resumeChannel("channel", odd),
    "Hub.status": () => hub.status(odd),
    "Hub.stop": () => hub.stop(odd),
    "HubTransfers.createTimeline": () => hub.createTimeline("x", odd),
    "HubTransfers.openTimeline": () => hub.openTimeline("timeline", odd),
    "HubTransfers.resumeTimeline": () => hub.resumeTimeline("timeline", odd),
    "HubTransfers.put": () => hub.put("x", new Int8Array(1), odd),
    "HubTransfers.load": () => hub.load("x", path, odd),
    "HubTransfers.save": () => hub.save("array", path, odd),
    "LoanedSlot.commit": () => lent.commit(odd),
    "ReceivedSlot.release": () => received?.release(odd),
    "SharedArray.publish": () => published.publish(odd),
    "SharedBundle.publish": () => bundle.publish(odd),
    "AnyTimeline.read": () => timeline.read(odd),
    "AnyTimeline.wait": () => timeline.wait(0, odd),
    "DeviceBuffer.allocate": () => DeviceBuffer.allocate(device, 1, odd),
    "DeviceBuffer.close": () => buffer.close(odd),
    "DeviceBuffer.fill": () => buffer.fill(0, { elementBytes: 1, value: 0 }, 1, odd),
    "DeviceBuffer.import": () => DeviceBuffer.import(device, fd, odd),
    "DeviceBuffer.read": () => buffer.read(0, new Uint8Array(1), odd),
    "DeviceBuffer.ready": () => buffer.ready(odd),
    "DeviceBuffer.write": () => buffer.write(0, new Uint8Array(1), odd),
    "Event_2.import": () => Event.import(device, event.export(), odd),
    "Event_2.synchronize": () => event.synchronize(odd),
    "GrowingArray.append": () => rows.append([1], odd),
    "GrowingArray.create": () => GrowingArray.create(device, odd),
    "GrowingBuffer.create": () => GrowingBuffer.create(device, odd),
    "GrowingBuffer.follow": () => growing.follow(odd),
    "GrowingBuffer.import": () =>
      GrowingBuffer.import(device, [], followed.document.descriptor, odd),
    "IpcArrayHandle.open": () => legacy.open(device, odd),
    "MemoryPool.allocate": () => pool.allocate(1, odd),
    "MemoryPool.allocateArray": () => pool.allocateArray({ dtype: "int8", shape: [1] }, odd),
    "MemoryPool.create": () => MemoryPool.create(device, odd),
    "MemoryPool.exportBuffer": () => pool.exportBuffer(buffer, odd),
    "MemoryPool.import": () => pool.import({} as never, odd),
    "MemoryPool.importArray": () =>
      pool.importArray({} as never, { dtype: "int8", shape: [1] }, odd),
    openIpcHandle: () => openIpcHandle(device, HANDLE, odd),
    receiveFd: () => receiveFd(socket, odd),
    sendFd: () => sendFd(socket, fd, new Uint8Array(1), odd),
    "Stream.synchronize": () => stream.synchronize(odd),
    "UnixListener.accept": () => listener.accept(odd),
    "UnixListener.listen": () => UnixListener.listen(path, odd),
    "UnixSocket.connect": () => UnixSocket.connect(path, odd),
    "UnixSocket.receive": () => socket.receive(1, odd),
    "UnixSocket.send": () => socket.send(new Uint8Array(1), odd),
    "Kernel.launch": () => Kernel.prototype.launch(odd),
    "Module.load": () => Module.load(device, "", odd),
    "Program.compile": () => Program.compile("", odd),
    "Group.allGather": () => group.allGather(1, odd),
    "Group.barrier": () => group.barrier(odd),
    "Group.join": () => Group.join(odd),
    "Offer.acknowledged": () => offered.acknowledged(1, odd),
    offer: () => offer(path, array, odd),
    openShared: () => openShared(shared.document, odd),
    readHandleFile: () => readHandleFile(path, odd),
    receiveOffer: () => receiveOffer(path, odd),
    share: () => share(array, odd),
    writeHandleFile: () => writeHandleFile(path, shared, odd),
    connectService: () => connectService(hub, "service", odd),
    serve: () => serve(hub, "x", odd, () => undefined),
    "Service.close": () => service.close(odd),
    "ServiceClient.request": () => client.request(undefined, odd),
  };
}

describe("an option that no call knows", () => {
  const made = new Disposables();
  checkLeaks(() => made.end());

  it("is refused by every public call", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    const attempts = await attemptsAt({ hub, path: `${testHub.folder.path}/x` }, made);
    const known = new Set([...Object.keys(attempts), ...otherwise]);
    assert.deepEqual(
      callsWithOptions().filter((call) => !known.has(call)),
      [],
      "calls that this test lacks",
    );
    for (const [call, attempt] of Object.entries(attempts)) {
      await assert.rejects(
        async () => attempt(),
        { name: "TypeError", message: /has no option "xyzzy"/ },
        call,
      );
    }
  });
});
