import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { describe, it } from "node:test";
import { python, skipWithoutPython } from "../../files-python/python.js";
import { CliRig } from "./cli-rig.js";

describe("cuda-ipc put and get of files from Python", { skip: skipWithoutPython }, () => {
  it("returns .npy files of numpy byte for byte", async () => {
    await using rig = await CliRig.open();
    const write = `
import os
folder = sys.argv[1]
random = np.random.default_rng(1)
arrays = {
  "c": random.random((7, 11), dtype=np.float32),
  "f": np.asfortranarray(random.integers(-9, 9, (5, 6, 7))),
  "s": np.array(2.5 + 1j),
  "b": random.random((9, 9)) > 0.5,
}
for name, array in arrays.items(): np.save(os.path.join(folder, name + ".npy"), array)
print(json.dumps(list(arrays)))`;
    const names = python(write, rig.folder) as string[];
    for (const name of names) {
      await rig.ok("put", name, `${name}.npy`);
      await rig.ok("get", name, `${name}.out.npy`);
    }
    const compare = `
import os
same = lambda n: open(os.path.join(sys.argv[1], n + ".npy"), "rb").read() == open(os.path.join(sys.argv[1], n + ".out.npy"), "rb").read()
print(json.dumps([same(n) for n in sys.argv[2:]]))`;
    assert.deepEqual(
      python(compare, rig.folder, ...names),
      names.map(() => true),
    );
  });

  it("returns a .safetensors file with the same arrays, bit for bit", async () => {
    await using rig = await CliRig.open();
    const write = `
random = np.random.default_rng(1)
arrays = {"w": random.random((64, 65), dtype=np.float32), "h": random.random((3, 3)).astype(named("bfloat16")), "m": random.random(5) > 0.5}
safetensors.numpy.save_file(arrays, sys.argv[1] + "/in.safetensors", metadata={"format": "pt"})`;
    python(write, rig.folder);
    await rig.ok("put", "m", "in.safetensors");
    await rig.ok("get", "m", "out.safetensors");
    assert.deepEqual(
      await readFile(rig.path("out.safetensors")),
      await readFile(rig.path("in.safetensors")),
    );
  });
});
