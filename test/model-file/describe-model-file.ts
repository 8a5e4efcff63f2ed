/**
 * One process loads a safetensors file of Python into a device's memory, another reads it, and a
 * third saves it. Python compares the two files bit by bit. One suite for every device.
 */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { python, skipWithoutPython } from "../files-python/python.js";

const run = promisify(execFile);
const command = fileURLToPath(new URL("../../src/cli/launch.cjs", import.meta.url));
const actor = fileURLToPath(new URL("actors/bundle-digests.js", import.meta.url));

/**
 * Every dtype that safetensors' numpy side knows, sizes without common factors, and one array of
 * some MiB.
 */
const WRITE = `
import hashlib
rng = np.random.default_rng(7)
arrays = {}
for name in ["bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float16", "bfloat16", "float32", "float64"]:
    dtype = named(name)
    bits = rng.integers(0, 2, (3, 7, 11)).astype(np.uint8) if name == "bool" else rng.integers(0, 256, 3 * 7 * 11 * dtype.itemsize).astype(np.uint8)
    arrays["t." + name] = bits.view(dtype).reshape(3, 7, 11)
arrays["large"] = rng.standard_normal((1021, 4099), dtype=np.float32)
arrays["empty"] = np.zeros((0, 5), np.float32)
safetensors.numpy.save_file(arrays, sys.argv[1], {"made": "by Python"})
print(json.dumps({name: hashlib.sha256(array.tobytes()).hexdigest() for name, array in arrays.items()}))
`;

const COMPARE = `
before, after = (safetensors.numpy.load_file(path) for path in sys.argv[1:3])
assert list(sorted(before)) == list(sorted(after)), "other names"
for name in before:
    assert before[name].dtype == after[name].dtype and before[name].shape == after[name].shape, name
    assert before[name].tobytes() == after[name].tobytes(), name
with safetensors.safe_open(sys.argv[2], "np") as file:
    assert file.metadata() == {"made": "by Python"}, file.metadata()
print(json.dumps(len(before)))
`;

export function describeModelFile(device: string, mechanism: string, skip: string | false): void {
  describe(`a safetensors file by Python, through ${device}`, {
    skip: skip || skipWithoutPython,
  }, () => {
    it("is read by other processes bit for bit", async () => {
      const folder = mkdtempSync(join(tmpdir(), "cuda-ipc-model-"));
      const env = {
        ...process.env,
        CUDA_IPC_SOCKET: join(folder, "run", "hub.sock"),
        CUDA_IPC_DEVICE: device,
      };
      const cli = (...args: string[]) =>
        run(process.execPath, [command, ...args], { env, timeout: 120_000 });
      const [original, copy] = [
        join(folder, "model.safetensors"),
        join(folder, "copy.safetensors"),
      ];
      try {
        const expected = python(WRITE, original);
        await cli("put", "model", original);
        const { stdout } = await run(process.execPath, [actor, "model"], { env, timeout: 120_000 });
        assert.deepEqual(JSON.parse(stdout), { device, mechanism, digests: expected });
        await cli("get", "model", copy);
        assert.equal(python(COMPARE, original, copy), 15);
      } finally {
        await cli("hub", "stop", "--force");
        rmSync(folder, { recursive: true, force: true });
      }
    });
  });
}
