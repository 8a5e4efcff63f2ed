import assert from "node:assert/strict";
import { join } from "node:path";
import { describe, it } from "node:test";
import { TestHub } from "../support/test-hub.js";
import { python, skipWithoutPython } from "./python.js";

const WRITE = `
import hashlib, os
folder, names = sys.argv[1], ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
os.mkdir(folder)
rng = np.random.default_rng(7)
digests, weight_map = {}, {}
for index, file in enumerate(names):
    arrays = {f"layer.{index}.{dtype}": rng.integers(0, 100, (5, 7 + index)).astype(named(dtype))
              for dtype in ["float32", "bfloat16", "int64", "uint8"]}
    safetensors.numpy.save_file(arrays, os.path.join(folder, file), {"format": "np"})
    for name, array in arrays.items():
        digests[name] = array.tobytes().hex()
        weight_map[name] = file
index = {"metadata": {"total_size": 1}, "weight_map": weight_map}
json.dump(index, open(os.path.join(folder, "model.safetensors.index.json"), "w"), indent=2)
print(json.dumps(digests))
`;

/**
 * Reads it as the Hugging Face libraries do: each file of the index, and each array of each file.
 */
const READ = `
import os
folder = sys.argv[1]
weight_map = json.load(open(os.path.join(folder, "model.safetensors.index.json")))["weight_map"]
found = {}
for file in sorted(set(weight_map.values())):
    for name, array in safetensors.numpy.load_file(os.path.join(folder, file)).items():
        assert weight_map[name] == file and name not in found, name
        found[name] = array.tobytes().hex()
assert set(found) == set(weight_map)
print(json.dumps([found, len(set(weight_map.values()))]))
`;

describe("a folder of safetensors files and the reference implementation", {
  skip: skipWithoutPython,
}, () => {
  it("loads the same bits as one bundle, and saves them as a folder again", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    const [folder, copy] = [testHub.folder.file("model"), testHub.folder.file("copy")];
    const wanted = python(WRITE, folder) as Record<string, string>;
    using bundle = await hub.load("model", folder, { format: "safetensors" });
    const found: Record<string, string> = {};
    for (const [name, array] of bundle) {
      const { buffer, byteOffset, byteLength } = await array.read();
      found[name] = Buffer.from(buffer, byteOffset, byteLength).toString("hex");
    }
    assert.deepEqual(found, wanted);
    const { paths } = await hub.save("model", copy, { shardBytesMax: 400 });
    assert.deepEqual(python(READ, copy), [wanted, paths.length - 1]);
    assert.ok(paths.length > 3, paths.join());
    assert.ok(paths.includes(join(copy, "model.safetensors.index.json")));
  });
});
