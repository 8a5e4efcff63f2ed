/** Yarn Plug'n'Play: a loader finds the packages. Here a file plays it, and notes who loads it. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { describe, it } from "node:test";
import { TestFolder } from "../../support/test-folder.js";
import { until } from "../../support/until.js";

const INDEX = new URL("../../../src/index.js", import.meta.url).href;
const PROGRAMS = ["hub/main.js", "hub/gate/gate-main.js", "keeper/main.js"];

const loader = (log: string) => `
  const Module = require("node:module");
  const resolve = Module._resolveFilename;
  Module._resolveFilename = (name, ...rest) =>
    name === "pnpapi" ? __filename : resolve(name, ...rest);
  process.versions.pnp = "3";
  require("node:fs").appendFileSync(${JSON.stringify(log)}, process.argv[1] + "\\n");`;

describe("under Yarn Plug'n'Play", () => {
  it("the hub, its gate and its keeper load what finds their packages", async () => {
    await using folder = new TestFolder();
    const log = folder.file("loaded by");
    writeFileSync(folder.file(".pnp.cjs"), loader(log));
    writeFileSync(folder.file(".pnp.loader.mjs"), "");
    const program = `
      import { connect } from ${JSON.stringify(INDEX)};
      const hub = await connect({ device: "host", reconnect: false });
      (await hub.put("a", new Float32Array(1), { lifetime: "pinned" })).close();
      await hub.close();`;
    const { NODE_OPTIONS: _, ...inherited } = process.env;
    const { status, stderr } = spawnSync(
      process.execPath,
      ["--require", folder.file(".pnp.cjs"), "--input-type=module", "--eval", program],
      { env: { ...inherited, CUDA_IPC_SOCKET: folder.socket }, encoding: "utf8" },
    );
    assert.equal(status, 0, stderr);
    await until("all three have loaded it", () => {
      const lines = existsSync(log) ? readFileSync(log, "utf8").split("\n") : [];
      return PROGRAMS.every((name) => lines.some((line) => line.endsWith(name)));
    });
  });
});
