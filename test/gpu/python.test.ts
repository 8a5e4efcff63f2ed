/**
 * The Python client of examples/python opens GPU memory of this process, passes it to PyTorch if
 * installed, and writes to it.
 */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { describe, it } from "node:test";
import { promisify } from "node:util";
import { connect } from "../../src/index.js";
import { whyNoGpu } from "../conformance/gpu-presence.js";

const run = promisify(execFile);

const READ_AND_WRITE = `
import hashlib, json, sys
sys.path.insert(0, sys.argv[1])
import cuda_ipc_client
with cuda_ipc_client.connect(path=sys.argv[2], program="test") as hub, hub.open("gpu-py", access="read-write") as shared:
    said = {"sha256": hashlib.sha256(shared.array.tobytes()).hexdigest(), "shape": shared.array.shape}
    try:
        import torch
        tensor = torch.as_tensor(shared.array, device="cuda")
        said["sum"] = float(tensor.sum())
        tensor.mul_(2)
        torch.cuda.synchronize()
        del tensor
    except ImportError:
        pass
    print(json.dumps(said))
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
      const args = ["-c", READ_AND_WRITE, resolve("examples/python"), socket];
      const { stdout } = await run("python3", args, { timeout: 120_000 });
      const said = JSON.parse(stdout) as { sha256: string; shape: number[]; sum?: number };
      const sha256 = createHash("sha256").update(new Uint8Array(values.buffer)).digest("hex");
      assert.deepEqual({ sha256: said.sha256, shape: said.shape }, { sha256, shape: [1000, 100] });
      if (said.sum === undefined) {
        t.diagnostic("PyTorch is not installed: only copies were checked");
        return;
      }
      assert.equal(
        said.sum,
        values.reduce((sum, value) => sum + value, 0),
      );
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
});
