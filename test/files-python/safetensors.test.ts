import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { dtypeNames } from "../../src/array/dtype.js";
import { hasCode } from "../../src/base/errors.js";
import { encodeSafetensorsHeader, planSafetensors } from "../../src/files/safetensors-encoding.js";
import {
  parseSafetensorsHeader,
  type SafetensorsHeader,
  safetensorsTextBytes,
} from "../../src/files/safetensors-header.js";
import { scratchFolder } from "../unit/files/scratch-folder.js";
import { python, skipWithoutPython } from "./python.js";

const safetensorsDTypes = dtypeNames.filter((name) => name !== "complex128");
const shapes = [[], [0], [5], [2, 3], [3, 0, 2]];

function parseFile(bytes: Uint8Array): SafetensorsHeader {
  const facts = { fileName: "x", byteLength: bytes.length };
  return parseSafetensorsHeader(
    bytes.subarray(8, 8 + safetensorsTextBytes(bytes.subarray(0, 8), facts)),
    facts,
  );
}

const writeAll = `
arrays = {}
for dtype in json.loads(sys.argv[2]):
    for shape in json.loads(sys.argv[3]):
        bits = np.random.default_rng(7).integers(0, 2 if dtype == "bool" else 256, int(np.prod(shape)) * named(dtype).itemsize, "u1")
        arrays[f"{dtype} {shape}"] = bits.view(named(dtype)).reshape(shape)
safetensors.numpy.save_file(arrays, sys.argv[1], {"k": "v"})
print(json.dumps([[n, a.dtype.name, list(a.shape), a.tobytes().hex()] for n, a in sorted(arrays.items())]))
`;

const readAll = `
with safetensors.safe_open(sys.argv[1], "np") as file:
    metadata = file.metadata()
info = deserialize(open(sys.argv[1], "rb").read())
print(json.dumps([metadata, sorted([n, i["dtype"], i["shape"], bytes(i["data"]).hex()] for n, i in info)]))
`;

const judgeAll = `
def accepts(text, data_bytes):
    content = bytes.fromhex(text)
    try:
        deserialize(len(content).to_bytes(8, "little") + content + bytes(data_bytes))
        return True
    except SafetensorError:
        return False
print(json.dumps([accepts(*case) for case in json.loads(open(sys.argv[1]).read())]))
`;

describe("safetensors files and the reference implementation", { skip: skipWithoutPython }, () => {
  it("reads the bits of every dtype that the reference writes, and writes the same header", () => {
    using scratch = scratchFolder();
    const path = join(scratch.path, "x.safetensors");
    const wanted = python(
      writeAll,
      path,
      JSON.stringify(safetensorsDTypes),
      JSON.stringify(shapes),
    );
    const content = readFileSync(path);
    const header = parseFile(content);
    const data = content.subarray(header.dataByteOffset);
    const found = header.arrays.map(({ name, dtype, shape, byteOffset, byteLength }) => {
      return [
        name,
        dtype,
        shape,
        data.subarray(byteOffset, byteOffset + byteLength).toString("hex"),
      ] as const;
    });
    found.sort(([a], [b]) => (a < b ? -1 : 1));
    assert.deepEqual(found, wanted);
    const ours = encodeSafetensorsHeader(
      planSafetensors(header.arrays).arrays,
      new Map([["k", "v"]]),
    );
    assert.deepEqual(Buffer.from(ours), content.subarray(0, header.dataByteOffset));
  });

  it("writes files that the reference reads back bit by bit", () => {
    using scratch = scratchFolder();
    const path = join(scratch.path, "x.safetensors");
    const plan = planSafetensors(
      safetensorsDTypes.flatMap((dtype) =>
        shapes.map((shape) => ({ name: `ü "${dtype}" [${shape}]`, dtype, shape })),
      ),
    );
    const data = Uint8Array.from({ length: plan.dataByteLength }, (_, i) => (i * 37) % 256);
    writeFileSync(
      path,
      Buffer.concat([encodeSafetensorsHeader(plan.arrays, new Map([["ü", "\n"]])), data]),
    );
    const [metadata, arrays] = python(readAll, path) as [
      unknown,
      [string, string, number[], string][],
    ];
    assert.deepEqual(metadata, { ü: "\n" });
    assert.equal(arrays.length, plan.arrays.length);
    const byName = new Map(plan.arrays.map((array) => [array.name, array]));
    for (const [name, , shape, hex] of arrays) {
      const { byteOffset, byteLength, shape: wanted } = byName.get(name)!;
      assert.deepEqual(shape, wanted);
      assert.equal(
        hex,
        Buffer.from(data.subarray(byteOffset, byteOffset + byteLength)).toString("hex"),
        name,
      );
    }
  });

  it("accepts no file that the reference refuses", () => {
    using scratch = scratchFolder();
    const array = { dtype: "U8", shape: [4], data_offsets: [0, 4] };
    const base = JSON.stringify({
      a: array,
      b: { dtype: "F32", shape: [1, 2], data_offsets: [4, 12] },
    });
    const tokens = [
      "0",
      "-1",
      "1.0",
      "9007199254740993",
      "18446744073709551617",
      "null",
      '"',
      "[",
      "]",
      "}",
      ",",
      "\\",
      " ",
      "\0",
      "ÿ",
    ];
    const texts = [
      base,
      "{}",
      "[]",
      "",
      `${base} `,
      `${base}\n`,
      `{"__metadata__":{"a":"b"},${base.slice(1)}`,
    ];
    for (let at = 0; at <= base.length; at += 1) {
      texts.push(base.slice(0, at) + base.slice(at + 1));
      for (const token of tokens) texts.push(base.slice(0, at) + token + base.slice(at));
    }
    const cases = texts.map((text) => [Buffer.from(text).toString("hex"), 12] as const);
    const judged = python(
      judgeAll,
      scratch.write("cases.json", JSON.stringify(cases)),
    ) as boolean[];
    const ours = texts.map((text) => {
      const bytes = Buffer.from(text);
      try {
        parseSafetensorsHeader(bytes, { fileName: "x", byteLength: 8 + bytes.length + 12 });
        return true;
      } catch (error) {
        assert.ok(
          hasCode(error, "INVALID_FILE") || hasCode(error, "UNSUPPORTED_DTYPE"),
          String(error),
        );
        return false;
      }
    });
    const laxer = texts.filter((_, i) => ours[i] && !judged[i]);
    assert.deepEqual(laxer, []);
    const stricter = texts.filter((_, i) => !ours[i] && judged[i]);
    for (const text of stricter)
      assert.match(text, /^ |^$/, "what it takes is refused only for known reasons");
    assert.ok(ours.filter((accepted) => accepted).length > 50);
  });
});
