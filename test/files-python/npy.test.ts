import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { open } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { type DType, dtypeNames } from "../../src/array/dtype.js";
import { arrayByteLength } from "../../src/array/layout.js";
import { gatherElements } from "../../src/array/strided-copy.js";
import { writeFileAtomically } from "../../src/files/atomic-write.js";
import { encodeNpyHeader, readNpyHeader } from "../../src/files/npy-header.js";
import { scratchFolder } from "../unit/files/scratch-folder.js";
import { python, skipWithoutPython } from "./python.js";

const npyDTypes = dtypeNames.filter((name) => !/^bfloat|^float8/.test(name));
const shapes = [[], [0], [5], [2, 3], [3, 0, 2], [1, 4, 1], [2, 3, 4, 5]];

interface Facts {
  readonly file: string;
  readonly dtype: DType;
  readonly shape: number[];
  readonly fortranOrder: boolean;
  readonly hex: string;
}

const writeAll = `
facts = []
for dtype in json.loads(sys.argv[2]):
    for shape in json.loads(sys.argv[3]):
        for order in "CF":
            random = np.random.default_rng(7).integers(0, 2 if dtype == "bool" else 256, int(np.prod(shape)) * np.dtype(dtype).itemsize, "u1")
            array = np.asarray(random.view(dtype).reshape(shape), order=order)
            file = f"{sys.argv[1]}/{dtype}-{'x'.join(map(str, shape))}-{order}.npy"
            np.save(file, array)
            fortran = array.flags.f_contiguous and not array.flags.c_contiguous
            facts.append(dict(file=file, dtype=dtype, shape=shape, fortranOrder=fortran, hex=array.tobytes().hex()))
print(json.dumps(facts))
`;

const readAll = `
found = []
for file in json.loads(sys.argv[1]):
    array = np.load(file, allow_pickle=False)
    fortran = array.flags.f_contiguous and not array.flags.c_contiguous
    found.append([array.dtype.name, list(array.shape), fortran, array.tobytes("A").hex()])
print(json.dumps(found))
`;

describe("npy files and numpy", { skip: skipWithoutPython }, () => {
  it("reads the bits of every dtype and shape that numpy writes", async () => {
    using scratch = scratchFolder();
    const all = python(
      writeAll,
      scratch.path,
      JSON.stringify(npyDTypes),
      JSON.stringify(shapes),
    ) as Facts[];
    assert.equal(all.length, npyDTypes.length * shapes.length * 2);
    for (const { file: path, hex, ...facts } of all) {
      const file = await open(path);
      const header = await readNpyHeader(file, path);
      await file.close();
      const { dtype, shape, fortranOrder } = header;
      assert.deepEqual({ dtype, shape, fortranOrder }, facts, path);
      const packed = new Uint8Array(header.dataByteLength);
      gatherElements(
        { ...header, byteOffset: header.dataByteOffset },
        { memory: readFileSync(path), packed },
      );
      assert.equal(Buffer.from(packed).toString("hex"), hex, path);
      const ours = encodeNpyHeader(dtype, shape, { fortranOrder });
      assert.deepEqual(
        Buffer.from(ours),
        readFileSync(path).subarray(0, header.dataByteOffset),
        path,
      );
    }
  });

  it("writes files that numpy reads back bit by bit", async () => {
    using scratch = scratchFolder();
    const wanted: unknown[] = [];
    const paths: string[] = [];
    for (const dtype of npyDTypes) {
      for (const [i, shape] of shapes.entries()) {
        const data = Uint8Array.from(
          { length: arrayByteLength(dtype, shape) },
          (_, k) => (k * 37) % (dtype === "bool" ? 2 : 256),
        );
        const fortranOrder = shape.length === 4;
        const path = join(scratch.path, `${dtype}-${i}.npy`);
        await writeFileAtomically(path, {}, async (file) => {
          await file.write(encodeNpyHeader(dtype, shape, { fortranOrder }));
          await file.write(data);
        });
        paths.push(path);
        wanted.push([dtype, shape, fortranOrder, Buffer.from(data).toString("hex")]);
      }
    }
    assert.deepEqual(python(readAll, JSON.stringify(paths)), wanted);
  });
});
