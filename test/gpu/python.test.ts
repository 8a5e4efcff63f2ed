/**
 * The Python package and Node on one GPU: arrays and channels in both directions, the driver's
 * memory as DLPack and __cuda_array_interface__, and with PyTorch the weights of a model and
 * tensors that are born shareable.
 */
import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { resolve } from "node:path";
import { describe, it } from "node:test";
import { promisify } from "node:util";
import { DeviceArray, type Hub } from "../../src/index.js";
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

/** Shares tensors that were allocated in shareable(), and checks that their memory is freed. */
const BORN = `
import gc, torch
from cuda_ipc import _shareable
with cuda_ipc.torch.shareable():
    model = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024, device="cuda") for _ in range(8)])
    small = torch.arange(10, device="cuda", dtype=torch.int64)
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        late = torch.full((1 << 20,), 3.0, device="cuda")
outside = torch.zeros(100, device="cuda")
shared = {}
for name, tensor in [*model.state_dict().items(), ("small", small), ("late", late)]:
    shared[name] = hub.share("born:" + name, tensor)
copied = [name for name, one in shared.items() if one.copied]
seen = torch.from_dlpack(hub.open("born:small", access="read-write"))
assert seen.data_ptr() != small.data_ptr()
seen += 1
torch.cuda.synchronize()
values = small.tolist()
last = torch.from_dlpack(hub.open("born:late", access="read-write"))
ordinary = hub.share("ordinary", outside)
for one in shared.values():
    one.close()
del model, small, side, tensor, one
gc.collect()
torch.cuda.empty_cache()
kept = len(_shareable.blocks)
del late, shared, seen, outside
ordinary.close()
gc.collect()
torch.cuda.empty_cache()
left = len(_shareable.blocks)
sum_of_last = float(last.sum())
del last
gc.collect()
torch.cuda.empty_cache()
import threading
def churn():
    for _ in range(20):
        with cuda_ipc.torch.shareable():
            torch.ones(1 << 16, device="cuda").sum().item()
threads = [threading.Thread(target=churn) for _ in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
gc.collect()
torch.cuda.empty_cache()
print(json.dumps({
    "copied": copied, "values": values, "kept": kept >= 1, "left": left, "sum": sum_of_last,
    "ordinary": [ordinary.copied, ordinary.mechanism],
    "afterThreads": len(_shareable.blocks),
}))
hub.close()
`;

const EMPTY = `
import gc, torch
tensor = cuda_ipc.torch.empty(3, 4, dtype=torch.bfloat16, device="cuda")
tensor.fill_(2)
shared = hub.share("empty", tensor[1:])
with hub.open("empty") as same:
    view = cuda_ipc.torch.view(same)
copied = shared.copied
shared.close()
tensor.fill_(5)
torch.cuda.synchronize()
del tensor, shared, same
gc.collect()
torch.cuda.empty_cache()
print(json.dumps({"copied": copied, "shape": list(view.shape), "first": float(view[0, 0])}))
hub.close()
`;

/** Opened for reading, by the whole way of a worker: views that outlive everything of ours. */
const WEIGHTS = `
import gc, torch
hub.close()
weights = cuda_ipc.torch.load_file("gpu-model")
with torch.device("meta"):
    module = torch.nn.Linear(4, 3)
cuda_ipc.torch.load_model(module, "gpu-model", strict=False)
names = {name: [str(tensor.dtype), list(tensor.shape), tensor.device.type] for name, tensor in weights.items()}
metadata = weights.metadata
del weights
gc.collect()
result = module(torch.ones(4, device="cuda")).tolist()
refused = None
try:
    import jax
    jax.dlpack.from_dlpack(cuda_ipc.connect().open_bundle("gpu-model")["weight"])
except BufferError as error:
    refused = "read-write" in str(error)
except ImportError:
    refused = True
print(json.dumps({"names": names, "metadata": metadata, "result": result, "refused": refused}))
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

const MESSAGES = 400;
const SLOT_BYTES = 65_536;

/**
 * Writes and reads by streams of PyTorch. Some messages are late, so that whoever does not wait for
 * the stream sees others' bytes. The kernels are loaded before a stream waits.
 */
const BY_STREAM = `
import torch
COUNT, SIZE = ${MESSAGES}, ${SLOT_BYTES}
torch.empty(SIZE, dtype=torch.uint8, device="cuda").fill_(1)
torch.cuda._sleep(1)
torch.cuda.synchronize()

def write(writer, stream):
    writer.wait_for_readers(1, 60)
    for n in range(COUNT):
        with writer.loan(60, stream=stream) as slot:
            if n % 20 == 0:
                torch.cuda._sleep(2_000_000)
            cuda_ipc.torch.view(slot.array).fill_(n % 251)
            slot.commit(meta=n)

def read(reader):
    out = torch.zeros(COUNT, SIZE, dtype=torch.uint8, device="cuda")
    late = 0
    for n in range(COUNT):
        with reader.next(60) as message:
            assert message.sequence == message.json == n
            late += not message.ready
            out[n].copy_(cuda_ipc.torch.view(message.array))
    torch.cuda.synchronize()
    assert message.ready
    wanted = torch.arange(COUNT, device="cuda").remainder(251).to(torch.uint8)
    return {"wrong": int((out != wanted[:, None]).any(1).sum()), "late": late > 0}
`;

const BOTH_WAYS = `${BY_STREAM}
stream = torch.cuda.Stream()
torch.cuda.set_stream(stream)
reader = hub.open_channel("node-stream", start="oldest", stream=stream)
writer = hub.create_channel("py-stream", "uint8", (SIZE,), slots=4, device="cuda:0")
print("ready", flush=True)
write(writer, stream)
print(json.dumps(read(reader)), flush=True)
sys.stdin.read()
hub.close()
`;

const WRITES_BY_STREAM = `${BY_STREAM}
writer = hub.create_channel("py-py", "uint8", (SIZE,), slots=4, device="cuda:0")
write(writer, cuda_ipc.torch.current_stream("cuda:0"))
writer.close()
print(json.dumps(writer.committed))
hub.close()
`;

const READS_BY_STREAM = `${BY_STREAM}
side = torch.cuda.Stream()
with torch.cuda.stream(side):
    said = read(hub.open_channel("py-py", start="oldest", stream=side, timeout=60))
print(json.dumps(said))
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
    const env = { ...process.env, CUDA_IPC_SOCKET: hub.socketPath };
    const { stdout } = await run(python, programWith(program), { timeout: 120_000, env });
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

  it("shares what PyTorch allocates in shareable() without a copy, and frees it", {
    skip: whyNoPackage("torch"),
  }, async () => {
    assert.deepEqual(await said(BORN), {
      copied: [],
      values: Array.from({ length: 10 }, (_, i) => i + 1),
      kept: true,
      left: 0,
      sum: 3 * 2 ** 20,
      ordinary: [false, "legacy"],
      afterThreads: 0,
    });
  });

  it("shares a tensor of empty() without a copy, which others keep", {
    skip: whyNoPackage("torch"),
  }, async () => {
    assert.deepEqual(await said(EMPTY), { copied: false, shape: [2, 4], first: 5 });
  });

  it("loads weights that Node shared as views of PyTorch", {
    skip: whyNoPackage("torch"),
  }, async () => {
    using bundle = await hub.createBundle(
      "gpu-model",
      { weight: { dtype: "float32", shape: [3, 4] }, bias: { dtype: "float32", shape: [3] } },
      { metadata: { format: "pt" } },
    );
    await bundle.array("weight").write(Float32Array.from({ length: 12 }, (_, i) => i));
    await bundle.array("bias").write(Float32Array.of(0, 1, 2));
    await bundle.publish();
    assert.deepEqual(await said(WEIGHTS), {
      names: {
        weight: ["torch.float32", [3, 4], "cuda"],
        bias: ["torch.float32", [3], "cuda"],
      },
      metadata: { format: "pt" },
      result: [6, 23, 40],
      refused: true,
    });
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

  it("orders messages by streams of PyTorch and of Node, both ways", {
    skip: whyNoPackage("torch"),
    timeout: 240_000,
  }, async () => {
    using stream = hub.device().createStream();
    using writer = await hub.createChannel("node-stream", {
      dtype: "uint8",
      shape: [SLOT_BYTES],
      slots: 4,
    });
    const peer = spawn(python, programWith(BOTH_WAYS), { stdio: ["pipe", "pipe", "inherit"] });
    const ended = once(peer, "close");
    await once(peer.stdout, "data");
    using reader = await hub.openChannel("py-stream", { from: "oldest", stream });
    using out = DeviceArray.allocate(hub.device(), {
      dtype: "uint8",
      shape: [MESSAGES, SLOT_BYTES],
    });
    for (let n = 0; n < MESSAGES; n += 1) {
      using slot = await reader.next({ timeoutMs: 60_000 });
      assert.equal(slot?.json, n);
      await out.slice(n).copyFrom(slot.array.expectDType("uint8"), { stream });
    }
    await stream.synchronize({ timeoutMs: 60_000 });
    const found = await out.read();
    assert.ok(found.every((byte, at) => byte === Math.floor(at / SLOT_BYTES) % 251));
    const answered = once(peer.stdout, "data");
    for (let n = 0; n < MESSAGES; n += 1) {
      const slot = await writer.loan({ stream, timeoutMs: 60_000 });
      await slot.array.fill(n % 251, { stream });
      slot.commit({ meta: n });
    }
    assert.equal(JSON.parse(String(await answered)).wrong, 0);
    peer.stdin.end();
    assert.deepEqual(await ended, [0, null]);
  });

  it("orders messages by streams of PyTorch in two processes of Python", {
    skip: whyNoPackage("torch"),
    timeout: 240_000,
  }, async () => {
    const [read, written] = await Promise.all([said(READS_BY_STREAM), said(WRITES_BY_STREAM)]);
    assert.equal(written, MESSAGES);
    assert.deepEqual(read, { wrong: 0, late: true });
  });
});
