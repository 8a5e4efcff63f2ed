import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { DType } from "../../../src/array/dtype.js";
import type { HostValues } from "../../../src/array/host-values.js";
import { hasCode } from "../../../src/base/errors.js";
import type { Hub } from "../../../src/client/hub.js";
import type { PutOptions } from "../../../src/client/hub-options.js";
import type { SharedArray } from "../../../src/client/objects/shared-array.js";
import { checkLeaks } from "../../support/leak-check.js";
import { TestHub } from "../../support/test-hub.js";

/** Calls put() without types, like plain JavaScript. */
function untypedPut(hub: Hub, values: unknown, options?: unknown): Promise<SharedArray> {
  return hub.put("x", values as HostValues, options as PutOptions & { readonly dtype: DType });
}

/** Never called. Lists calls that the compiler must refuse. */
async function refusedByTypes(hub: Hub): Promise<void> {
  // @ts-expect-error a plain array has no dtype
  await hub.put("x", [1, 2]);
  // @ts-expect-error float64 values for float32
  await hub.put("x", new Float64Array(1), { dtype: "float32" });
  // @ts-expect-error the array is of float32
  const _typed: SharedArray<"uint8"> = await hub.put("x", new Float32Array(1));
  // @ts-expect-error a safetensors file is a bundle
  const _bundle: SharedArray = await hub.load("x", "x", { format: "safetensors" });
}

describe("put", () => {
  checkLeaks();

  it("publishes a typed array with the dtype of its type, and one axis", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    await using other = await testHub.connect();
    using pixels: SharedArray<"float32"> = await hub.put("pixels", Float32Array.of(1, 2.5, -0));
    using opened = await other.open("pixels", { wait: false, dtype: "float32" });
    assert.deepEqual([opened.shape, await opened.read()], [[3], Float32Array.of(1, 2.5, -0)]);
    assert.equal(pixels.dtype, "float32");
    const others = {
      uint8: new Uint8Array(2),
      uint16: new Uint16Array(2),
      uint32: new Uint32Array(2),
      uint64: new BigUint64Array(2),
      int8: new Int8Array(2),
      int16: new Int16Array(2),
      int32: new Int32Array(2),
      int64: new BigInt64Array(2),
      float64: new Float64Array(2),
    };
    for (const [dtype, values] of Object.entries(others)) {
      using array = await hub.put(dtype, values);
      assert.deepEqual([array.dtype, array.shape], [dtype, [2]]);
    }
    using bytes = await hub.put("bytes", Buffer.from("abc"));
    assert.equal(bytes.dtype, "uint8");
  });

  it("takes shape, dtype, plain numbers, complex pairs and floats to be rounded", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    using table = await hub.put("table", Int32Array.of(1, 2, 3, 4, 5, 6), { shape: [2, 3] });
    assert.deepEqual(await table.slice({}, 1).read(), Int32Array.of(2, 5));
    using plain: SharedArray<"int64"> = await hub.put("plain", [1, 2n ** 60n], { dtype: "int64" });
    assert.deepEqual(await plain.read(), BigInt64Array.of(1n, 2n ** 60n));
    using pairs = await hub.put("pairs", [1, 2, 3, 4], { dtype: "complex64" });
    assert.deepEqual(pairs.shape, [2]);
    using halves = await hub.put("halves", Float32Array.of(1, 2), { dtype: "bfloat16" });
    assert.deepEqual(await halves.read(), Uint16Array.of(0x3f80, 0x4000));
    using one = await hub.put("one", [7], { dtype: "uint8", shape: [] });
    assert.deepEqual(one.shape, []);
    using none = await hub.put("none", new Float32Array(0));
    assert.deepEqual(none.shape, [0]);
  });

  it("passes on the options of create, and replaces an older object with `replace`", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    (await hub.put("kept", Uint8Array.of(1), { lifetime: "pinned" })).close();
    assert.equal((await hub.inspect("kept")).object.lifetime, "pinned");
    await assert.rejects(hub.put("kept", Uint8Array.of(2)), (error) =>
      hasCode(error, "NAME_TAKEN"),
    );
    (await hub.put("kept", Uint8Array.of(2), { lifetime: "pinned", replace: true })).close();
    using kept = await hub.open("kept", { dtype: "uint8" });
    assert.deepEqual(await kept.read(), Uint8Array.of(2));
    using fresh = await hub.put("fresh", Uint8Array.of(3), { replace: true });
    assert.deepEqual(await fresh.read(), Uint8Array.of(3));
  });

  const misuses: readonly (readonly [string, unknown, unknown, ErrorConstructor, RegExp])[] = [
    [
      "a plain array without dtype",
      [1, 2],
      {},
      TypeError,
      /a plain array has no dtype\. Pass the option dtype/,
    ],
    ["no options for a plain array", [1, 2], undefined, TypeError, /Pass the option dtype/],
    ["no values", undefined, {}, TypeError, /values must be a typed array or .*, not undefined/],
    ["no values with dtype", undefined, { dtype: "int8" }, TypeError, /Cannot take values as int8/],
    ["null", null, { dtype: "int8" }, TypeError, /Cannot take values as int8: found null/],
    [
      "a DataView",
      new DataView(new ArrayBuffer(4)),
      {},
      TypeError,
      /values must be a typed array or .*, not an object of class DataView/,
    ],
    [
      "another typed array",
      new Float64Array(2),
      { dtype: "float32" },
      TypeError,
      /values as float32: found Float64Array/,
    ],
    ["text", ["1"], { dtype: "int8" }, TypeError, /value 0 is of type string/],
    ["rows", [[1], [2]], { dtype: "int8" }, TypeError, /value 0 is of type object/],
    [
      "a value out of range",
      [300],
      { dtype: "uint8" },
      RangeError,
      /value 0 must be an integer from 0 to 255/,
    ],
    [
      "too few values",
      [1, 2],
      { dtype: "int8", shape: [3] },
      RangeError,
      /found 2 values, wanted 3/,
    ],
    ["half a pair", [1, 2, 3], { dtype: "complex64" }, RangeError, /found 3 values, wanted 2/],
    [
      "a size as shape",
      [1],
      { dtype: "int8", shape: 1 },
      TypeError,
      /shape must be an array of integers/,
    ],
    [
      "a negative size",
      [1],
      { dtype: "int8", shape: [-1] },
      RangeError,
      /shape\[0\] must be an integer/,
    ],
    [
      "an invalid time limit",
      [1],
      { dtype: "int8", timeoutMs: -1 },
      RangeError,
      /timeoutMs must be/,
    ],
    [
      "an invalid signal",
      [1],
      { dtype: "int8", signal: {} },
      TypeError,
      /signal must be an AbortSignal/,
    ],
    [
      "an unknown lifetime",
      [1],
      { dtype: "int8", lifetime: "long" },
      TypeError,
      /lifetime must be/,
    ],
  ];
  it("has types that refuse most mistakes", () => assert.equal(typeof refusedByTypes, "function"));

  it("names the wrong argument, and leaves nothing behind", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    for (const [what, values, options, kind, words] of misuses) {
      await assert.rejects(untypedPut(hub, values, options), (error) => {
        assert.ok(error instanceof kind, `${what}: ${error}`);
        assert.match(error.message, words, what);
        return true;
      });
    }
    await assert.rejects(hub.put("no/name", Uint8Array.of(1)), (error) =>
      hasCode(error, "INVALID_NAME"),
    );
    await assert.rejects(untypedPut(hub, [1], { dtype: "int128" }), (error) =>
      hasCode(error, "UNSUPPORTED_DTYPE"),
    );
    await assert.rejects(hub.put("x", Uint8Array.of(1), { device: "gpu" }), (error) =>
      hasCode(error, "INVALID_DEVICE"),
    );
    const { objects, leases } = await hub.status();
    assert.deepEqual([objects, leases], [0, 0]);
    using x = await hub.put("x", Uint8Array.of(1));
    assert.equal(x.name, "x");
  });

  it("ends at its signal or timeout with its own error, and leaves nothing behind", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    const values = new Uint8Array(64 * 1024 * 1024);
    for (const replace of [false, true]) {
      await assert.rejects(hub.put("x", values, { signal: AbortSignal.abort(), replace }), {
        code: "ABORTED",
        message: 'Cannot put "x": aborted',
      });
      await assert.rejects(hub.put("x", values, { timeoutMs: 0, replace }), {
        code: "TIMEOUT",
        message: 'Cannot put "x": not done within 0 ms',
      });
    }
    const { objects, leases } = await hub.status();
    assert.deepEqual([objects, leases], [0, 0]);
  });

  it("is refused on a closed hub", async () => {
    await using testHub = await TestHub.start();
    const hub = await testHub.connect();
    await hub.close();
    await assert.rejects(hub.put("x", Uint8Array.of(1)), (error) => hasCode(error, "CLOSED"));
    await assert.rejects(hub.put("x", Uint8Array.of(1), { replace: true }), (error) =>
      hasCode(error, "CLOSED"),
    );
  });
});

describe("open with a dtype", () => {
  checkLeaks();

  it("is typed by it, and refused if the array has another", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    using made = await hub.put("frame", Uint8Array.of(1, 2));
    using frame: SharedArray<"uint8"> = await hub.open("frame", { dtype: "uint8" });
    const values: Uint8Array = await frame.read();
    assert.deepEqual(values, await made.read());
    await assert.rejects(hub.open("frame", { dtype: "float32" }), {
      code: "WRONG_KIND",
      message: 'Cannot open "frame" as float32: it is an array of uint8',
    });
    await assert.rejects(hub.open("frame", { dtype: "float" as DType }), {
      code: "UNSUPPORTED_DTYPE",
    });
    using bundle = await hub.createBundle("model", { w: { dtype: "uint8", shape: [2] } });
    await bundle.publish();
    await assert.rejects(hub.open("model", { dtype: "uint8" }), (error) =>
      hasCode(error, "WRONG_KIND"),
    );
    assert.equal((await hub.status()).leases, 3);
  });

  it("is typed by it for a channel, and refused if the channel has another", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    using writer = await hub.createChannel("frames", {
      dtype: "uint8",
      shape: [2],
      slots: 2,
      readersMax: 1,
    });
    await assert.rejects(hub.openChannel("frames", { dtype: "float32" }), {
      code: "WRONG_KIND",
      message: 'Cannot open "frames" as float32: it is a channel of uint8',
    });
    await assert.rejects(hub.openChannel("frames", { dtype: "float" as DType }), {
      code: "UNSUPPORTED_DTYPE",
    });
    using reader = await hub.openChannel("frames", { dtype: "uint8" });
    using slot = await writer.loan();
    slot.bytes.fill(5);
    slot.commit();
    using message = await reader.next();
    const values: Uint8Array | undefined = await message?.array.read();
    assert.deepEqual(values, Uint8Array.of(5, 5));
  });
});
