/**
 * Tensors of PyTorch's own allocator under a name, without a copy: opened by Python and by Node,
 * kept while others have them open, and gone with their owner.
 */
import assert from "node:assert/strict";
import { resolve } from "node:path";
import { describe, it } from "node:test";
import { hasCode } from "../../src/base/errors.js";
import type { Hub } from "../../src/index.js";
import { PeerProcess } from "../support/peer-process.js";
import { until } from "../support/until.js";
import { withGpuHub } from "./gpu-hub.js";
import { python, whyNoPackage } from "./python-packages.js";

const HEAD = `
import gc, json, sys, time
sys.path.insert(0, sys.argv[1])
import cuda_ipc, torch
hub = cuda_ipc.connect(sys.argv[2], program="test")
name = sys.argv[3]
def say(value): print(json.dumps(value), flush=True)
`;

/** Shares every second row and third column of a part of a block. */
const OWNER = `${HEAD}
COUNT = 1 << 20
block = torch.arange(COUNT, dtype=torch.int32, device="cuda")
start = block.data_ptr()
part = block[100:900].reshape(40, 20)[::2, ::3]
torch.cuda.synchronize()
shared = hub.share(name, part)
say([shared.copied, shared.mechanism, part.flatten().tolist()])
sys.stdin.readline()

def kept():
    return torch.cuda.memory_allocated() >= block_bytes

block_bytes = block.nbytes
shared.close()
del shared, part, block
gc.collect()
made = [torch.full((COUNT,), -1, dtype=torch.int32, device="cuda") for _ in range(20)]
say(start in [one.data_ptr() for one in made])
del made
say(kept())
sys.stdin.readline()
limit = time.monotonic() + 60
while kept() and time.monotonic() < limit:
    gc.collect()
    time.sleep(0.01)
say(kept())
hub.close()
`;

const READER = `${HEAD}
array = hub.open(name, access="read-write")
while True:
    try:
        say([array.memory_gone, torch.from_dlpack(array).flatten().tolist()])
    except cuda_ipc.CudaIpcError as error:
        say([array.memory_gone, error.code])
    if sys.stdin.readline().strip() != "again":
        break
array.close()
hub.close()
`;

describe("a tensor of PyTorch's own memory on the hub", {
  skip: whyNoPackage("torch"),
}, () => {
  let hub: Hub;
  withGpuHub((it) => {
    hub = it;
  });

  const peer = (program: string, name: string) =>
    new PeerProcess(python, ["-c", program, resolve("python/src"), hub.socketPath, name]);

  async function shared(name: string) {
    const owner = peer(OWNER, name);
    const [copied, mechanism, values] = (await owner.said()) as [boolean, string, number[]];
    assert.deepEqual([copied, mechanism], [false, "legacy"]);
    assert.deepEqual([values.length, values[0], values[1], values[7]], [140, 100, 103, 140]);
    return { owner, values };
  }

  it("has the same bytes in Python and Node, and stays until both have closed it", async () => {
    const { owner, values } = await shared("torch:kept");
    await using _ = owner;
    await using reader = peer(READER, "torch:kept");
    assert.deepEqual(await reader.said(), [false, values]);
    const array = await hub.open("torch:kept", { dtype: "int32" });
    assert.equal(array.buffer.mechanism, "legacy");
    assert.deepEqual([...(await array.read())], values);
    owner.tell("close");
    assert.equal(await owner.said(), false, "PyTorch does not use the memory for other tensors");
    assert.equal(await owner.said(), true, "the block is kept");
    assert.deepEqual([...(await array.read())], values);
    array.close();
    reader.tell("again");
    assert.deepEqual(await reader.said(), [false, values]);
    await reader.finish();
    owner.tell("look");
    assert.equal(await owner.said(), false, "PyTorch has the block back");
    await owner.finish();
  });

  it("is gone for its readers once its owner is killed", async () => {
    const { owner, values } = await shared("torch:killed");
    await using _ = owner;
    await using reader = peer(READER, "torch:killed");
    assert.deepEqual(await reader.said(), [false, values]);
    using array = await hub.open("torch:killed", { dtype: "int32" });
    assert.deepEqual([...(await array.read())], values);
    process.kill(owner.pid, "SIGKILL");
    await until("the mark is ended", () => array.memoryGone);
    await assert.rejects(array.read(), (error) => hasCode(error, "PEER_GONE"));
    reader.tell("again");
    assert.deepEqual(await reader.said(), [true, "PEER_GONE"]);
    await reader.finish();
  });
});
