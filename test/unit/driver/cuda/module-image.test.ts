import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { CudaIpcError } from "../../../../src/base/errors.js";
import { readModuleImage } from "../../../../src/driver/cuda/module-image.js";

const SECTION_BYTES = 64;

/** An ELF file with a symbol table of these names; `other` 0x10 marks a kernel. */
function elf(
  symbols: readonly { name: string; info: number; other: number; section: number }[],
): Uint8Array {
  const strings = new TextEncoder().encode(`\0${symbols.map(({ name }) => name).join("\0")}\0`);
  const stringsAt = 64;
  const symbolsAt = stringsAt + strings.byteLength;
  const sectionsAt = symbolsAt + 24 * symbols.length;
  const bytes = new Uint8Array(sectionsAt + 3 * SECTION_BYTES);
  const view = new DataView(bytes.buffer);
  bytes.set([0x7f, 0x45, 0x4c, 0x46, 2, 1, 1]);
  view.setBigUint64(40, BigInt(sectionsAt), true);
  view.setUint16(58, SECTION_BYTES, true);
  view.setUint16(60, 3, true);
  bytes.set(strings, stringsAt);
  let nameAt = 1;
  symbols.forEach(({ name, info, other, section }, index) => {
    const at = symbolsAt + 24 * index;
    view.setUint32(at, nameAt, true);
    bytes.set([info, other], at + 4);
    view.setUint16(at + 6, section, true);
    nameAt += name.length + 1;
  });
  const section = (
    index: number,
    type: number,
    offset: number,
    byteLength: number,
    link: number,
  ): void => {
    const at = sectionsAt + index * SECTION_BYTES;
    view.setUint32(at + 4, type, true);
    view.setBigUint64(at + 24, BigInt(offset), true);
    view.setBigUint64(at + 32, BigInt(byteLength), true);
    view.setUint32(at + 40, link, true);
  };
  section(1, 3, stringsAt, strings.byteLength, 0);
  section(2, 2, symbolsAt, 24 * symbols.length, 1);
  return bytes;
}

const cubin = elf([
  { name: "helper", info: 0x12, other: 0, section: 4 },
  { name: "scale", info: 0x12, other: 0x10, section: 4 },
  { name: "elsewhere", info: 0x12, other: 0x10, section: 0 },
  { name: "data", info: 0x11, other: 0x10, section: 4 },
  { name: "sum", info: 0x12, other: 0x10, section: 5 },
]);

function fatbin(claimed: number, actual: number): Uint8Array {
  const bytes = new Uint8Array(16 + actual);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, 0xba55ed50, true);
  view.setUint16(6, 16, true);
  view.setBigUint64(8, BigInt(claimed), true);
  return bytes;
}

const isInvalid = (error: unknown) =>
  error instanceof CudaIpcError && error.code === "INVALID_MODULE";

describe("readModuleImage", () => {
  it("ends PTX with a zero, and lists its kernels", () => {
    const text = new TextEncoder().encode("xx.entry k()\0");
    for (const end of [text.byteLength - 1, text.byteLength]) {
      const { bytes, kernels } = readModuleImage(text.subarray(2, end));
      assert.equal(new TextDecoder().decode(bytes), ".entry k()\0");
      assert.deepEqual([...(kernels?.keys() ?? [])], ["k"]);
    }
  });

  it("lists the kernels of a cubin, and no other functions", () => {
    const { bytes, kernels } = readModuleImage(cubin);
    assert.equal(bytes, cubin);
    assert.deepEqual(
      [...(kernels ?? [])],
      [
        ["scale", undefined],
        ["sum", undefined],
      ],
    );
  });

  it("refuses a cubin that is cut off at any byte", () => {
    for (let byteLength = 4; byteLength < cubin.byteLength; byteLength += 1) {
      assert.throws(
        () => readModuleImage(cubin.slice(0, byteLength)),
        isInvalid,
        String(byteLength),
      );
    }
  });

  it("reads or refuses a cubin with any byte changed", () => {
    for (let at = 4; at < cubin.byteLength; at += 1) {
      for (const value of [0, 1, 0x7f, 0xff]) {
        const changed = Uint8Array.from(cubin);
        changed[at] = value;
        try {
          readModuleImage(changed);
        } catch (error) {
          assert.ok(isInvalid(error), `${at}: ${String(error)}`);
        }
      }
    }
  });

  it("accepts a fatbin of the length it claims, and refuses one that is cut off", () => {
    const whole = fatbin(100, 100);
    assert.deepEqual(readModuleImage(whole), { bytes: whole, kernels: undefined });
    for (const image of [fatbin(101, 100), fatbin(0, 0).subarray(0, 10)])
      assert.throws(() => readModuleImage(image), isInvalid);
  });

  it("refuses an image over the limit before it reads it", () => {
    const huge = new Uint8Array(256 * 1024 * 1024 + 1);
    assert.throws(() => readModuleImage(huge), { code: "LIMIT_EXCEEDED" });
  });
});
