import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { DeviceArray } from "../../../../src/gpu/arrays/device-array.js";
import { Device } from "../../../../src/gpu/device.js";
import {
  arg,
  encodeArguments,
  type KernelArgument,
} from "../../../../src/gpu/kernels/kernel-arguments.js";
import { DeviceBuffer } from "../../../../src/gpu/memory/device-buffer.js";
import { createFakeGpu } from "../../../support/fake-gpu.js";
import { checkLeaks } from "../../../support/leak-check.js";

const hex = (bytes: Uint8Array | undefined): string => Buffer.from(bytes ?? []).toString("hex");

describe("arg", () => {
  const cases: readonly [name: string, found: { bytes: Uint8Array }, bytes: string][] = [
    ["i8", arg.i8(-2), "fe"],
    ["u8", arg.u8(255), "ff"],
    ["i16", arg.i16(-32768), "0080"],
    ["u16", arg.u16(0x1234), "3412"],
    ["i32", arg.i32(-1n), "ffffffff"],
    ["u32", arg.u32(4294967295), "ffffffff"],
    ["i64", arg.i64(-(2n ** 63n)), "0000000000000080"],
    ["i64 of a number", arg.i64(-2), "feffffffffffffff"],
    ["u64", arg.u64(2n ** 64n - 1n), "ffffffffffffffff"],
    ["pointer", arg.pointer(0x7f00_1234_5678n), "78563412007f0000"],
    ["f16", arg.f16(1.5), "003e"],
    ["bf16", arg.bf16(1.5), "c03f"],
    ["f32", arg.f32(1.5), "0000c03f"],
    ["f64", arg.f64(1.5), "000000000000f83f"],
    ["f32 of NaN", arg.f32(Number.NaN), "0000c07f"],
    ["bool", arg.bool(true), "01"],
    ["bytes", arg.bytes(Uint8Array.of(1, 2, 3)), "010203"],
  ];
  for (const [name, found, bytes] of cases)
    it(`${name} is ${bytes}`, () => assert.equal(hex(found.bytes), bytes));

  it("refuses values out of range with RangeError", () => {
    const attempts = [
      () => arg.i8(128),
      () => arg.i8(-129),
      () => arg.u8(-1),
      () => arg.u32(2 ** 32),
      () => arg.i32(1.5),
      () => arg.i32(Number.NaN),
      () => arg.u64(2n ** 64n),
      () => arg.u64(2 ** 53),
      () => arg.i64(2n ** 63n),
      () => arg.pointer(-1n),
    ];
    for (const attempt of attempts) assert.throws(attempt, RangeError, attempt.toString());
  });

  it("refuses values of another kind with TypeError", () => {
    const attempts = [
      () => arg.i32("1" as never),
      () => arg.f32(1n as never),
      () => arg.bool(1 as never),
      () => arg.bytes([1] as never),
      () => arg.u8(undefined as never),
    ];
    for (const attempt of attempts) assert.throws(attempt, TypeError, attempt.toString());
  });

  it("does not overwrite the bytes of earlier values", () => {
    const made = [arg.i32(1), arg.f32(1.5), arg.u64(2n ** 63n), arg.f16(1.5), arg.u8(7)];
    const found = made.map(({ bytes }) => hex(bytes));
    assert.deepEqual(found, ["01000000", "0000c03f", "0000000000000080", "003e", "07"]);
  });

  it("copies a struct's bytes", () => {
    const bytes = Uint8Array.of(1);
    const made = arg.bytes(bytes);
    bytes[0] = 2;
    assert.equal(hex(made.bytes), "01");
  });
});

describe("encodeArguments", () => {
  checkLeaks();
  let device: Device;
  before(() => {
    device = Device.open("cuda:0", () => createFakeGpu());
  });
  after(() => device.close());

  const encode = (...args: unknown[]) =>
    encodeArguments("launch k", args as KernelArgument[], device);
  const u64 = (value: bigint) => hex(new Uint8Array(BigUint64Array.of(value).buffer));

  it("encodes a buffer as its address, an array as that of its first element", () => {
    using buffer = DeviceBuffer.allocate(device, 64);
    using array = DeviceArray.allocate(device, { dtype: "float32", shape: [4, 4] });
    const { bytes, buffers } = encode(buffer, array, array.slice(1, 2));
    const expected = [buffer.pointer, array.buffer.pointer, array.buffer.pointer + 24n];
    assert.deepEqual(bytes.map(hex), expected.map(u64));
    assert.deepEqual(buffers, [buffer, array.buffer, array.buffer]);
  });

  it("encodes a bigint as 8 bytes, signed or not", () => {
    assert.deepEqual(encode(-1n, 2n ** 64n - 2n).bytes.map(hex), [
      "ffffffffffffffff",
      "feffffffffffffff",
    ]);
    for (const value of [2n ** 64n, -(2n ** 63n) - 1n])
      assert.throws(() => encode(value), RangeError);
  });

  it("refuses a value without a type, and says how to give one", () => {
    assert.throws(() => encode(arg.i32(0), 5), {
      name: "TypeError",
      message:
        "Cannot launch k: argument 1 is the number 5, wanted memory, a bigint or a typed " +
        "argument such as arg.i32(1) or arg.f32(1)",
    });
    for (const value of [null, undefined, "1", true, {}, [], Uint8Array.of(1)])
      assert.throws(() => encode(value), TypeError);
  });

  it("refuses closed memory, and memory of another device", () => {
    const closed = DeviceBuffer.allocate(device, 64);
    closed.close();
    assert.throws(() => encode(closed), { code: "CLOSED" });
    using host = Device.open("host");
    using elsewhere = DeviceBuffer.allocate(host, 64);
    assert.throws(() => encode(elsewhere), /argument 0 is memory of host, wanted memory of cuda:0/);
  });
});
