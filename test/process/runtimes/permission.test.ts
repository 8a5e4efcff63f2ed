/** Node's permission model with everything allowed. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { describe, it } from "node:test";
import { TestFolder } from "../../support/test-folder.js";

const INDEX = new URL("../../../src/index.js", import.meta.url).href;
const known = process.allowedNodeEnvironmentFlags;
const FLAGS = [
  known.has("--permission") ? "--permission" : "--experimental-permission",
  "--allow-fs-read=*",
  "--allow-fs-write=*",
  "--allow-child-process",
  "--allow-addons",
  "--allow-worker",
];

describe("node --permission with everything allowed", () => {
  it("starts a hub and shares an array", async () => {
    await using folder = new TestFolder();
    const program = `
      import { connect } from ${JSON.stringify(INDEX)};
      const hub = await connect({ device: "host", reconnect: false });
      const made = await hub.put("a", new Float32Array([1, 2, 3]), { lifetime: "pinned" });
      const opened = await hub.open("a", { wait: false });
      console.log(JSON.stringify([...(await opened.read())]));
      opened.close();
      made.close();
      await hub.close();`;
    const { NODE_OPTIONS: _, ...inherited } = process.env;
    const { stdout, stderr } = spawnSync(
      process.execPath,
      [...FLAGS, "--input-type=module", "--eval", program],
      { env: { ...inherited, CUDA_IPC_SOCKET: folder.socket }, encoding: "utf8" },
    );
    assert.equal(stdout, "[1,2,3]\n", stderr);
  });
});
