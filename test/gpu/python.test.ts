/**
 * The Python package and Node on one GPU: arrays and channels in both directions, the driver's
 * memory as DLPack and __cuda_array_interface__, and PyTorch on it if installed.
 */
import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { resolve } from "node:path";
import { describe, it } from "node:test";
import { promisify } from "node:util";
import type { Hub } from "../../src/index.js";
import { whyNoGpu } from "../conformance/gpu-presence.js";
import { withGpuHub } from "./gpu-hub.js";
import { python, whyNoPackage } from "./python-packages.js";

const run = promisify(execFile);

const HEAD = `
import hashlib, json, sys
sys.path.insert(0, sys.argv[1])
import cuda_ipc
hub = cuda_ipc.connect(sys.argv[2], program="test")
`;

const COPY = `
with hub.open("gpu-py", access="read-write") as shared:
    said = {"sha256": hashlib.sha256(shared.tobytes()).hexdigest(), "shape": shared.shape}
    interface = shared.__cuda_array_interface__
    said["device"] = [shared.device, shared.__dlpack_device__()[0], interface["data"][1]]
    shared.__dlpack__(stream=1, max_version=(1, 0))
    print(json.dumps(said))
hub.close()
`;

/** Each sums all elements and doubles them in place. */
const packages = {
  torch: `
import torch
view = torch.from_dlpack(shared)
same = torch.as_tensor(shared, device="cuda")
assert view.data_ptr() == same.data_ptr() == shared.__cuda_array_interface__["data"][0]
said = {"sum": float(view.sum())}
view.mul_(2)
torch.cuda.synchronize()
`,
  cupy: `
import cupy
view = cupy.asarray(shared)
assert cupy.from_dlpack(shared).data.ptr == view.data.ptr
said = {"sum": float(view.sum())}
view *= 2
cupy.cuda.Device().synchronize()
`,
  "numba.cuda": `
from numba import cuda
view = cuda.as_cuda_array(shared)
values = view.copy_to_host()
said = {"sum": float(values.sum())}
view.copy_to_device(values * 2)
cuda.synchronize()
`,
} as const;

const usedBy = (use: string) => `
with hub.open("gpu-py", access="read-write") as shared:
    ${use.trim().replaceAll("\n", "\n    ")}
    print(json.dumps(said))
hub.close()
`;

const TORCH_DTYPES = `
import torch
said = []
for dtype in cuda_ipc.dtypes:
    made = hub.create("torch:" + dtype, dtype, (2, 3), device="cuda:0")
    view = torch.from_dlpack(made)
    said.append(str(view.dtype) == "torch." + dtype and view.shape == (2, 3))
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
writer.wait_for_readers(1, 60)
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

const values = Float32Array.from({ length: 100_000 }, (_, index) => index % 128);

describe("Python on the same GPU", { skip: whyNoGpu() ?? false }, () => {
  let hub: Hub;
  withGpuHub((it) => {
    hub = it;
  });

  async function shared() {
    const array = await hub.create("gpu-py", { dtype: "float32", shape: [1000, 100] });
    await array.write(values);
    await array.publish();
    return array;
  }

  const programWith = (program: string) => [
    "-c",
    HEAD + program,
    resolve("python/src"),
    hub.socketPath,
  ];

  async function said(program: string): Promise<unknown> {
    const { stdout } = await run(python, programWith(program), { timeout: 120_000 });
    return JSON.parse(stdout);
  }

  it("reads what Node wrote", async () => {
    using _array = await shared();
    const sha256 = createHash("sha256").update(new Uint8Array(values.buffer)).digest("hex");
    const device = ["cuda:0", 2, false];
    assert.deepEqual(await said(COPY), { sha256, shape: [1000, 100], device });
  });

  for (const [name, use] of Object.entries(packages)) {
    it(`works with ${name} on the array in place`, { skip: whyNoPackage(name) }, async () => {
      using array = await shared();
      const sum = values.reduce((sum, value) => sum + value, 0);
      assert.deepEqual(await said(usedBy(use)), { sum });
      assert.deepEqual(
        await array.read(),
        values.map((value) => value * 2),
      );
    });
  }

  it("gives PyTorch each dtype as a view", { skip: whyNoPackage("torch") }, async () => {
    assert.deepEqual(await said(TORCH_DTYPES), Array(17).fill(true));
  });

  it("shares memory and writes channels that Node opens, and reads those of a stream", async () => {
    using stream = hub.device().createStream();
    using writer = await hub.createChannel("node-channel", {
      dtype: "uint8",
      shape: [1024],
      slots: 2,
    });
    const peer = spawn(python, programWith(SHARE), { stdio: ["pipe", "pipe", "inherit"] });
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
  });
});
