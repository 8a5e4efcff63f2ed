// Gives legacy memory a name, as Python does, and reports it. At "write" it writes other values. At
// "close" it drains the object, frees the memory and releases its lease. The third argument names
// the lie of its descriptor.
import { Device } from "../../../../src/gpu/device.js";
import { DeviceBuffer } from "../../../../src/gpu/memory/device-buffer.js";
import { LegacyMemory } from "../../../../src/gpu/memory/legacy-memory.js";
import { createMemoryFile } from "../../../../src/os/memory-file.js";
import { encodeHandle } from "../../../../src/wire/ipc-documents.js";
import { MARK_BYTES } from "../../../../src/wire/legacy-mark.js";
import { argument, say, told } from "../../../support/actor-side.js";
import { RawClient } from "../../../support/raw-client.js";

const [socket, name, lie] = [0, 1, 2].map(argument) as [string, string, string];
const device = Device.open("host");
const buffer = DeviceBuffer.allocate(device, 12, { mechanism: "legacy" });
const mark = createMemoryFile("mark", MARK_BYTES);
const write = (values: Int32Array) => buffer.write(0, new Uint8Array(values.buffer));
await write(Int32Array.of(1, 2, 3));

const { handle, blockByteLength } = LegacyMemory.handleOf(buffer.memory, name);
const length = lie === "too long" ? 2 * blockByteLength : blockByteLength;
const descriptor = {
  version: 1,
  device: device.reference,
  mechanism: "legacy",
  legacy: { handle: encodeHandle(lie === "garbage" ? handle.map((byte) => ~byte) : handle) },
  byteLength: length,
  allocationByteLength: length,
  content: { kind: "array", array: { dtype: "int32", shape: [3], strides: [1], byteOffset: 0 } },
};
const client = await RawClient.connect(socket);
const lifetime = lie === "pinned" ? "pinned" : "held";
const created = await client.ask({ op: "create", name, lifetime, descriptor }, [mark]);
const { object, lease } = created.result ?? {};
if (created.ok) await client.ask({ op: "publish", object });
say(created.error?.code ?? "published");
while ((await told()) === "write") {
  await write(Int32Array.of(4, 5, 6));
  say("written");
}
client.send({ op: "drain", object });
say("closing");
const drained = await client.reply();
buffer.close();
await client.ask({ op: "release", lease });
say(drained !== "end" && drained.ok ? "freed" : drained);
await told();
