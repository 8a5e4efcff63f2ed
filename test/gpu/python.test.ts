/**
 * The Python client of examples/python opens GPU memory of this process. PyTorch, CuPy and Numba
 * work on that memory in place, each if it is installed.
 */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { resolve } from "node:path";
import { describe, it } from "node:test";
import { promisify } from "node:util";
import type { Hub } from "../../src/index.js";
import { whyNoGpu } from "../conformance/gpu-presence.js";
import { withGpuHub } from "./gpu-hub.js";
import { python, whyNoPackage } from "./python-packages.js";

const run = promisify(execFile);

/** Sets `said`, a dictionary, from the array `shared`. */
const program = (use: string) => `
import hashlib, json, sys
sys.path.insert(0, sys.argv[1])
import cuda_ipc_client
with cuda_ipc_client.connect(path=sys.argv[2], program="test") as hub, hub.open("gpu-py", access="read-write") as shared:
    ${use.trim().replaceAll("\n", "\n    ")}
    print(json.dumps(said))
`;

const COPY = `
said = {"sha256": hashlib.sha256(shared.array.tobytes()).hexdigest(), "shape": shared.array.shape}
`;

/** Each sums all elements and doubles them in place. */
const packages = {
  torch: `
import torch
view = torch.as_tensor(shared.array, device="cuda")
said = {"sum": float(view.sum())}
view.mul_(2)
torch.cuda.synchronize()
del view
`,
  cupy: `
import cupy
view = cupy.asarray(shared.array)
said = {"sum": float(view.sum())}
view *= 2
cupy.cuda.Device().synchronize()
del view
`,
  "numba.cuda": `
from numba import cuda
view = cuda.as_cuda_array(shared.array)
values = view.copy_to_host()
said = {"sum": float(values.sum())}
view.copy_to_device(values * 2)
cuda.synchronize()
del view
`,
} as const;

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

  async function said(use: string): Promise<unknown> {
    const args = ["-c", program(use), resolve("examples/python"), hub.socketPath];
    const { stdout } = await run(python, args, { timeout: 120_000 });
    return JSON.parse(stdout);
  }

  it("reads what Node wrote", async () => {
    using _array = await shared();
    const sha256 = createHash("sha256").update(new Uint8Array(values.buffer)).digest("hex");
    assert.deepEqual(await said(COPY), { sha256, shape: [1000, 100] });
  });

  for (const [name, use] of Object.entries(packages)) {
    it(`works with ${name} on the array in place`, { skip: whyNoPackage(name) }, async () => {
      using array = await shared();
      assert.deepEqual(await said(use), { sum: values.reduce((sum, value) => sum + value, 0) });
      assert.deepEqual(
        await array.read(),
        values.map((value) => value * 2),
      );
    });
  }
});
