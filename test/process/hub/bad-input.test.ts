/** Mistakes in plain JavaScript. Each error names the argument and the value found. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { describe, it } from "node:test";
import { CudaIpcError } from "../../../src/base/errors.js";
import { connect } from "../../../src/client/connect.js";
import type { Hub } from "../../../src/client/hub.js";
import { DeviceArray } from "../../../src/gpu/arrays/device-array.js";
import { Device } from "../../../src/gpu/device.js";
import { receiveOffer } from "../../../src/peer/receive-offer.js";
import { share } from "../../../src/peer/share.js";
import { serve } from "../../../src/service/service.js";
import { connectService } from "../../../src/service/service-client.js";
import { checkLeaks } from "../../support/leak-check.js";
import { patientExplanations } from "../../support/patient-explanations.js";
import { TestFolder } from "../../support/test-folder.js";
import { TestHub } from "../../support/test-hub.js";

const any = (value: unknown) => value as never;
const ITEM = { dtype: "int8", shape: [1] } as const;
const SLOT = { byteLength: 8 } as const;

const ARRAY = '{ dtype: "float32", shape: [2, 3] }';

const cases: Readonly<Record<string, readonly [(hub: Hub) => unknown, RegExp]>> = {
  "a shape that is a number": [
    (hub) => hub.create("x", { ...ITEM, shape: any(6) }),
    /^TypeError: shape must be an array of integers such as \[2, 3\], not 6$/,
  ],
  "a shape of strings": [
    (hub) => hub.create("x", { ...ITEM, shape: any(["2"]) }),
    /^TypeError: shape\[0\] must be an integer, not "2"$/,
  ],
  "create() without options": [
    (hub) => hub.create("x", any(undefined)),
    /^TypeError: create\(\) needs options, such as create\("frame", \{ dtype: "float32", shape: \[2, 3\] \}\)$/,
  ],
  "create() with nothing": [
    (hub) => hub.create(any(undefined), any(undefined)),
    /^TypeError: create\(\) needs options/,
  ],
  "create() without a shape": [
    (hub) => hub.create("x", any({ dtype: "int8" })),
    /^TypeError: create\(\) needs the option shape, such as /,
  ],
  "a dtype that does not exist": [
    (hub) => hub.create("x", { ...ITEM, dtype: any("flaot32") }),
    /^UNSUPPORTED_DTYPE: Unknown dtype "flaot32": known are bool, .*\. Did you mean "float32"\?$/,
  ],
  "a dtype that is no string": [
    (hub) => hub.create("x", { ...ITEM, dtype: any(6) }),
    /^TypeError: dtype must be a string such as "float32", not 6$/,
  ],
  "a lifetime that does not exist": [
    (hub) => hub.create("x", { ...ITEM, lifetime: any("pined") }),
    /^TypeError: lifetime must be "held" or "pinned", not "pined". Did you mean "pinned"\?$/,
  ],
  "a device that does not exist": [
    (hub) => hub.create("x", { ...ITEM, device: "gpu" }),
    /^INVALID_DEVICE: Cannot open device "gpu": wanted .* Did you mean "cuda:0"\?$/,
  ],
  "an invalid pool": [
    (hub) => hub.create("x", { ...ITEM, pool: any({}) }),
    /^TypeError: pool must be a MemoryPool of this package, not \{\}$/,
  ],
  "an array of a bundle": [
    (hub) => hub.createBundle("x", { weights: any(5) }),
    new RegExp(
      `^TypeError: arrays.weights must be an object, such as ${ARRAY.replace(/[[\]{}]/g, "\\$&")}, not 5$`,
    ),
  ],
  "no arrays of a bundle": [
    (hub) => hub.createBundle("x", any(undefined)),
    /^TypeError: arrays must be an object/,
  ],
  "a time limit that is a string": [
    (hub) => hub.open("x", { timeoutMs: any("5") }),
    /^TypeError: timeoutMs must be a number of milliseconds from 0 to Infinity, not "5"$/,
  ],
  "an invalid signal": [
    (hub) => hub.list({ signal: any(5) }),
    /^TypeError: signal must be an AbortSignal, not 5$/,
  ],
  "an option that is misspelt": [
    (hub) => hub.open("x", any({ timeout: 5 })),
    /^TypeError: open\(\) has no option "timeout". Did you mean "timeoutMs"\?$/,
  ],
  "invalid options": [
    (hub) => hub.open("x", any(5)),
    /^TypeError: The options of open\(\) must be an object, not 5$/,
  ],
  "an invalid listener": [
    (hub) => hub.onReconnect(any(undefined)),
    /^TypeError: listener must be a function, not undefined$/,
  ],
  "a channel without options": [
    (hub) => hub.createChannel("x", any(undefined)),
    /^TypeError: createChannel\(\) needs options, such as createChannel\("frames", /,
  ],
  "slots that are a string": [
    (hub) => hub.createChannel("x", { ...SLOT, slots: any("4") }),
    /^TypeError: slots must be an integer from 1 to 65536, not "4"$/,
  ],
  "no slots": [
    (hub) => hub.createChannel("x", { ...SLOT, slots: 0 }),
    /^RangeError: slots must be an integer from 1 to 65536, not 0$/,
  ],
  "a policy that does not exist": [
    (hub) => hub.createChannel("x", { ...SLOT, whenFull: any("drop") }),
    /^TypeError: whenFull must be .*, not "drop". Did you mean "drop-oldest" or "drop-newest"\?$/,
  ],
  "an invalid stream": [
    (hub) => hub.openChannel("x", { stream: any(5) }),
    /^TypeError: stream must be a Stream of this package, not 5$/,
  ],
  "spinMs that is a string": [
    (hub) => hub.openChannel("x", { spinMs: any("1") }),
    /^TypeError: spinMs must be a number from 0, not "1"$/,
  ],
  "a service without options": [
    (hub) => serve(hub, "x", any(undefined), any(undefined)),
    /^TypeError: serve\(\) needs options/,
  ],
  "a service without a handler": [
    (hub) => serve(hub, "x", { request: SLOT, reply: SLOT }, any(undefined)),
    /^TypeError: handler must be a function, not undefined$/,
  ],
  "an invalid request of a service": [
    (hub) =>
      serve(
        hub,
        "x",
        { request: any(5) },
        any(() => {}),
      ),
    /^TypeError: request must be an object, such as .*, not 5$/,
  ],
  "a service's depth": [
    (hub) =>
      serve(
        hub,
        "x",
        { request: SLOT, depth: 0 },
        any(() => {}),
      ),
    /^RangeError: depth must be an integer from 1 to 256, not 0$/,
  ],
  "a service of something else than a hub": [
    (hub) => serve(any("x"), "x", { request: SLOT }, any(hub)),
    /^TypeError: hub must be a Hub, as connect\(\) returns, not "x"$/,
  ],
  "a client of something else than a hub": [
    () => connectService(any("x"), "x"),
    /^TypeError: hub must be a Hub, as connect\(\) returns, not "x"$/,
  ],
  "the name of a timeline": [
    (hub) => hub.createTimeline(any(5)),
    /^TypeError: name must be a string, not 5$/,
  ],
  "the name of a channel": [
    (hub) => hub.createChannel(any(5), SLOT),
    /^TypeError: name must be a string, not 5$/,
  ],
  "values that are no array": [
    (hub) => hub.put("x", any("hello")),
    /^TypeError: Cannot put "x": values must be a typed array or .*, not "hello"$/,
  ],
  "a save of what nobody created": [
    (hub) => hub.save("nothing", "/x.npy", { timeoutMs: 50 }),
    /^TIMEOUT: Cannot save "nothing" to "\/x.npy": not done within 50 ms; no process has created "nothing"; the hub is at /,
  ],
  "a policy of a service's client": [
    (hub) => connectService(hub, "x", { policy: any("retri") }),
    /^TypeError: policy must be "retry" or "fail", not "retri". Did you mean "retry"\?$/,
  ],
};

const calls: Readonly<Record<string, readonly [(array: DeviceArray) => unknown, RegExp]>> = {
  "sizes in an array": [
    (array) => array.reshape(any([3, 2])),
    /^TypeError: reshape\(\) takes numbers: reshape\(3, 2\), not reshape\(\[3,2\]\)$/,
  ],
  "axes in an array": [
    (array) => array.transpose(any([1, 0])),
    /^TypeError: transpose\(\) takes numbers: transpose\(1, 0\), not transpose\(\[1,0\]\)$/,
  ],
  "a range in an array": [
    (array) => array.slice(any([0, 1])),
    /^TypeError: Cannot slice: range of axis 0 must be .*, not \[0,1\]$/,
  ],
  "a misspelt end of a range": [
    (array) => array.slice(any({ begin: 1 })),
    /^TypeError: slice\(\) has no option "begin". It takes: start, stop, step.$/,
  ],
  "a source that is no DeviceArray": [
    (array) => array.copyFrom(any(Float32Array.of(1))),
    /^TypeError: from must be a DeviceArray, not an object of class Float32Array$/,
  ],
  "a comparison with no DeviceArray": [
    (array) => array.compare(any(5)),
    /^TypeError: other must be a DeviceArray, not 5$/,
  ],
  "values that are a string": [
    (array) => array.write(any("1")),
    /^TypeError: Cannot take values as float32: found "1", wanted Float32Array or a plain array$/,
  ],
  "a device given by its name": [
    () => DeviceArray.allocate(any("host"), ITEM),
    /^TypeError: device must be a Device, such as Device\.open\("host"\), not "host"$/,
  ],
  "something to share that is no array": [
    () => share(any("x")),
    /^TypeError: Cannot share "x": it is no array and no buffer$/,
  ],
  "a path that is no string": [
    () => receiveOffer(any(5)),
    /^TypeError: socketPath must be a string, not 5$/,
  ],
};

const connections: Readonly<Record<string, readonly [object, RegExp]>> = {
  "a malformed device": [
    { device: "cuda:x" },
    /^INVALID_DEVICE: Cannot open device "cuda:x": wanted .*/,
  ],
  "a device that is no string": [{ device: 5 }, /^TypeError: device must be a string, not 5$/],
  "a socket that is no string": [{ socket: 6 }, /^TypeError: socket must be a string, not 6$/],
  "an invalid user": [
    { hubUid: -1 },
    /^RangeError: hubUid must be an integer from 0 to 4294967294, not -1$/,
  ],
  "a program that is no string": [{ program: 5 }, /^TypeError: program must be a string, not 5$/],
  "start that is no boolean": [
    { start: "no" },
    /^TypeError: start must be true or false, not "no"$/,
  ],
  "a misspelt option": [
    { deivce: "host" },
    /^TypeError: connect\(\) has no option "deivce". Did you mean "device"\?$/,
  ],
};

function wordsOf(error: unknown): string {
  return error instanceof CudaIpcError ? `${error.code}: ${error.message}` : String(error);
}

async function refusal(call: () => unknown): Promise<string> {
  try {
    await call();
  } catch (error) {
    return wordsOf(error);
  }
  return "no error";
}

describe("a mistake in an argument", () => {
  checkLeaks();
  patientExplanations();

  it("is named with the value found, and nothing is left on the hub", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    for (const [what, [call, wanted]] of Object.entries(cases)) {
      assert.match(await refusal(() => call(hub)), wanted, what);
    }
    const { objects, leases, waitingOpens } = await hub.status();
    assert.deepEqual({ objects, leases, waitingOpens }, { objects: 0, leases: 0, waitingOpens: 0 });
  });

  it("is named by the calls of an array, and by those that need no hub", async () => {
    using device = Device.open("host");
    using array = DeviceArray.allocate(device, { dtype: "float32", shape: [2, 3] });
    for (const [what, [call, wanted]] of Object.entries(calls)) {
      assert.match(await refusal(() => call(array)), wanted, what);
    }
  });

  it("is refused by connect() before a hub is looked for", async () => {
    await using folder = new TestFolder();
    for (const [what, [options, wanted]] of Object.entries(connections)) {
      const call = () => connect({ socket: folder.socket, start: false, ...options });
      assert.match(await refusal(call), wanted, what);
    }
  });

  it("names the folder of a socket that does not exist", async () => {
    await using folder = new TestFolder();
    const socket = join(folder.path, "none", "hub.sock");
    assert.equal(
      await refusal(() => connect({ socket, start: false })),
      `HUB_UNAVAILABLE: Cannot connect to a hub at ${socket}: none listens there, and ${join(folder.path, "none")} ` +
        "does not exist",
    );
    assert.match(
      await refusal(() => connect({ socket: "/proc/none/hub.sock" })),
      /: Cannot make the folder \/proc\/none for the socket \/proc\/none\/hub.sock: mkdir failed with E[A-Z]+$/,
    );
  });
});
