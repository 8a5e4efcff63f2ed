/**
 * The Python package and Node on one GPU: arrays and channels in both directions, the driver's
 * memory as DLPack and __cuda_array_interface__, and PyTorch on it if installed.
 */
import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { describe, it } from "node:test";
import { promisify } from "node:util";
import { connect } from "../../src/index.js";
import { whyNoGpu } from "../conformance/gpu-presence.js";

const run = promisify(execFile);

const HEAD = `
import hashlib, json, sys
sys.path.insert(0, sys.argv[1])
import cuda_ipc
hub = cuda_ipc.connect(sys.argv[2], program="test")
try:
    import torch
except ImportError:
    torch = None
`;

const READ_AND_WRITE = `
with hub.open("gpu-py", access="read-write") as shared:
    said = {"sha256": hashlib.sha256(shared.tobytes()).hexdigest(), "shape": shared.shape}
    interface = shared.__cuda_array_interface__
    said["device"] = [shared.device, shared.__dlpack_device__()[0], interface["data"][1]]
    shared.__dlpack__(stream=1, max_version=(1, 0))
    if torch is not None:
        tensor = torch.from_dlpack(shared)
        same = torch.as_tensor(shared, device="cuda")
        said["sum"] = float(tensor.sum())
        said["same"] = tensor.data_ptr() == same.data_ptr() == interface["data"][0]
        tensor.mul_(2)
        torch.cuda.synchronize()
        said["dtypes"] = []
        for dtype in cuda_ipc.dtypes:
            made = hub.create("torch:" + dtype, dtype, (2, 3), device="cuda:0")
            view = torch.from_dlpack(made)
            said["dtypes"].append(str(view.dtype) == "torch." + dtype and view.shape == (2, 3))
            made.close()
            view.view(torch.uint8).zero_()
    print(json.dumps(said))
hub.close()
`;

const SHARE = `
array = hub.create("py-gpu", "int32", (4,), device="cuda:0")
array.write(bytes(range(16)))
array.publish()
writer = hub.create_channel("py-channel", "uint8", (1024,), slots=2, device="cuda:0")
reader = hub.open_channel("node-channel")
print("ready", flush=True)
for n in range(10):
    with writer.loan(60) as slot:
        slot.array.write(bytes([n]) * 1024)
        slot.commit(meta=n)
for n in range(10):
    with reader.next(60) as message:
        assert message.array.tobytes() == bytes([message.json]) * 1024 and message.json == n
        assert message.array.readonly and message.array.device == "cuda:0"
sys.stdin.read()
hub.close()
`;

describe("Python on the same GPU", { skip: whyNoGpu() ?? false }, () => {
  it("reads what Node wrote, and PyTorch works on it in place", async (t) => {
    const folder = mkdtempSync(join(tmpdir(), "cuda-ipc-gpu-python-"));
    const socket = join(folder, "hub.sock");
    const hub = await connect({ socket, device: "cuda:0" });
    try {
      using array = await hub.create("gpu-py", { dtype: "float32", shape: [1000, 100] });
      const values = Float32Array.from({ length: 100_000 }, (_, index) => index % 128);
      await array.write(values);
      await array.publish();
      const args = ["-c", HEAD + READ_AND_WRITE, resolve("python/src"), socket];
      const { stdout } = await run("python3", args, { timeout: 120_000 });
      const said = JSON.parse(stdout) as {
        sha256: string;
        shape: number[];
        device: unknown;
        sum?: number;
        same?: boolean;
        dtypes?: boolean[];
      };
      const sha256 = createHash("sha256").update(new Uint8Array(values.buffer)).digest("hex");
      assert.deepEqual({ sha256: said.sha256, shape: said.shape }, { sha256, shape: [1000, 100] });
      assert.deepEqual(said.device, ["cuda:0", 2, false]);
      if (said.sum === undefined) {
        t.diagnostic("PyTorch is not installed: only copies were checked");
        return;
      }
      assert.equal(
        said.sum,
        values.reduce((sum, value) => sum + value, 0),
      );
      assert.equal(said.same, true);
      assert.deepEqual(said.dtypes, Array(17).fill(true));
      assert.deepEqual(
        await array.read(),
        values.map((value) => value * 2),
      );
    } finally {
      await hub.stop({ force: true });
      await hub.close();
      rmSync(folder, { recursive: true, force: true });
    }
  });

  it("shares memory and writes channels that Node opens, and reads those of a stream", async () => {
    const folder = mkdtempSync(join(tmpdir(), "cuda-ipc-gpu-python-"));
    const socket = join(folder, "hub.sock");
    const hub = await connect({ socket, device: "cuda:0" });
    try {
      using stream = hub.device().createStream();
      using writer = await hub.createChannel("node-channel", {
        dtype: "uint8",
        shape: [1024],
        slots: 2,
      });
      const args = ["-c", HEAD + SHARE, resolve("python/src"), socket];
      const peer = spawn("python3", args, { stdio: ["pipe", "pipe", "inherit"] });
      const ended = once(peer, "close");
      await once(peer.stdout, "data");
      using array = await hub.open("py-gpu");
      const bytes = Uint8Array.from({ length: 16 }, (_, index) => index);
      assert.deepEqual(await array.read(), new Int32Array(bytes.buffer));
      using reader = await hub.openChannel("py-channel", { from: "oldest" });
      for (let n = 0; n < 10; n += 1) {
        const slot = await reader.next({ timeoutMs: 60_000 });
        assert.equal(slot?.json, n);
        assert.deepEqual(await slot?.array.read(), new Uint8Array(1024).fill(n));
        slot?.release();
      }
      for (let n = 0; n < 10; n += 1) {
        const slot = await writer.loan({ stream, timeoutMs: 60_000 });
        await slot.array.fill(n, { stream });
        slot.commit({ meta: n });
      }
      peer.stdin.end();
      assert.deepEqual(await ended, [0, null]);
    } finally {
      await hub.stop({ force: true });
      await hub.close();
      rmSync(folder, { recursive: true, force: true });
    }
  });
});
