/** Starts a hub for all tests of a suite on a GPU, in its own folder. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before } from "node:test";
import { connect, type Hub } from "../../src/index.js";

/** @param use gets the hub before the first test. The hub ends after the last test. */
export function withGpuHub(use: (hub: Hub) => void): void {
  let folder: string | undefined;
  let hub: Hub | undefined;
  before(async () => {
    folder = mkdtempSync(join(tmpdir(), "cuda-ipc-gpu-"));
    hub = await connect({ socket: join(folder, "hub.sock"), device: "cuda:0", hubIdleMs: 1000 });
    use(hub);
  });
  after(async () => {
    await hub?.stop({ force: true });
    await hub?.close();
    if (folder !== undefined) rmSync(folder, { recursive: true, force: true });
  });
}
