import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { copyFileSync, existsSync, readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { TestFolder } from "../../support/test-folder.js";

const UNITS = ["cuda-ipc-hub.service", "cuda-ipc-hub.socket"];

function missing(): string | false {
  if (!existsSync("deploy")) return "the units are not here";
  return spawnSync("systemd-analyze", ["--version"]).status === 0
    ? false
    : "systemd-analyze is not installed";
}

describe("the units in deploy", () => {
  it("are understood by systemd", { skip: missing() }, () => {
    using folder = new TestFolder();
    for (const unit of UNITS) copyFileSync(`deploy/${unit}`, folder.file(unit));
    const env = { ...process.env, XDG_RUNTIME_DIR: folder.path };
    const options = { encoding: "utf8", env } as const;
    const { stdout, stderr } = spawnSync(
      "systemd-analyze",
      ["--user", "verify", ...UNITS.map((unit) => folder.file(unit))],
      options,
    );
    const complaints = `${stdout}${stderr}`
      .split("\n")
      .filter((line) => line.includes("cuda-ipc-hub"));
    assert.deepEqual(complaints, []);
  });

  it("are understood by systemd, including the one for a whole machine", {
    skip: missing(),
  }, () => {
    using folder = new TestFolder();
    const unit = folder.file("cuda-ipc-hub.service");
    copyFileSync("deploy/system/cuda-ipc-hub.service", unit);
    const { stdout, stderr } = spawnSync("systemd-analyze", ["verify", unit], { encoding: "utf8" });
    const complaints = `${stdout}${stderr}`
      .split("\n")
      .filter((line) => line.includes("cuda-ipc-hub"));
    assert.deepEqual(complaints, []);
  });

  it("have the machine's socket at the path of its configuration", {
    skip: existsSync("deploy") ? false : "the units are not here",
  }, () => {
    const service = readFileSync("deploy/system/cuda-ipc-hub.service", "utf8");
    const { socket } = JSON.parse(readFileSync("deploy/hub.json", "utf8")) as { socket: string };
    const folder = /^RuntimeDirectory=(.*)$/m.exec(service)?.[1];
    assert.ok(service.includes(`Environment=CUDA_IPC_SOCKET=${socket}\n`));
    assert.equal(socket, `/run/${folder}/hub.sock`);
  });

  it("name one socket", {
    skip: existsSync("deploy") ? false : "the units are not here",
  }, () => {
    const [service = "", socket = ""] = UNITS.map((unit) => readFileSync(`deploy/${unit}`, "utf8"));
    const path = /^ListenSequentialPacket=(.*)$/m.exec(socket)?.[1];
    assert.ok(path !== undefined && service.includes(`Environment=CUDA_IPC_SOCKET=${path}\n`));
  });
});
