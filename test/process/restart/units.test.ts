import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { copyFileSync, existsSync, readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { limits } from "../../../src/base/limits.js";
import { nameOf, objectKey } from "../../../src/hub/restart/stored-names.js";
import { TestFolder } from "../../support/test-folder.js";

const UNITS = ["cuda-ipc-hub.service", "cuda-ipc-hub.socket", "cuda-ipc-bridge.service"];

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
      .filter((line) => line.includes("cuda-ipc-"));
    assert.deepEqual(complaints, []);
  });

  it("are understood by systemd, including those for a whole machine", {
    skip: missing(),
  }, () => {
    using folder = new TestFolder();
    const units = ["cuda-ipc-hub.service", "cuda-ipc-bridge.service"];
    for (const unit of units) copyFileSync(`deploy/system/${unit}`, folder.file(unit));
    const paths = units.map((unit) => folder.file(unit));
    const options = { encoding: "utf8" } as const;
    const { stdout, stderr } = spawnSync("systemd-analyze", ["verify", ...paths], options);
    const complaints = `${stdout}${stderr}`
      .split("\n")
      .filter((line) => line.includes("cuda-ipc-"));
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

  it("store no more descriptors than their names fit into one variable", {
    skip: existsSync("deploy") ? false : "the units are not here",
  }, () => {
    const yearUs = 365 * 24 * 3600 * 1e6;
    const longest = nameOf(objectKey(yearUs), limits.scmRightsFdsMax - 1);
    for (const folder of ["deploy", "deploy/system"]) {
      const unit = readFileSync(`${folder}/cuda-ipc-hub.service`, "utf8");
      const max = Number(/^FileDescriptorStoreMax=(\d+)$/m.exec(unit)?.[1]);
      const names = Array.from({ length: max }, () => longest).join(":");
      const env = { ...process.env, LISTEN_FDNAMES: names };
      const { error, status } = spawnSync(process.execPath, ["--version"], { env });
      assert.deepEqual([error, status], [undefined, 0]);
    }
  });

  it("name one socket", {
    skip: existsSync("deploy") ? false : "the units are not here",
  }, () => {
    const [service = "", socket = ""] = UNITS.map((unit) => readFileSync(`deploy/${unit}`, "utf8"));
    const path = /^ListenSequentialPacket=(.*)$/m.exec(socket)?.[1];
    assert.ok(path !== undefined && service.includes(`Environment=CUDA_IPC_SOCKET=${path}\n`));
  });

  it("have a bridge at the hub's socket, with an interface and options that it knows", {
    skip: existsSync("deploy") ? false : "the units are not here",
  }, () => {
    const socket = /^Environment=CUDA_IPC_SOCKET=.*$/m;
    for (const folder of ["deploy", "deploy/system"]) {
      const [hub, bridge] = ["hub", "bridge"].map(
        (it) => socket.exec(readFileSync(`${folder}/cuda-ipc-${it}.service`, "utf8"))?.[0],
      );
      assert.ok(hub !== undefined);
      assert.equal(bridge, hub);
    }
    const settings = readFileSync("deploy/bridge.env", "utf8");
    const options = /^BRIDGE_OPTIONS=(.*)$/m.exec(settings)?.[1]?.match(/--[\w-]+/g) ?? [];
    const sources = ["commands/bridge.ts", "nats-settings.ts"];
    const command = sources.map((name) => readFileSync(`src/cli/${name}`, "utf8")).join("");
    assert.ok(options.length > 0);
    for (const option of options) assert.ok(command.includes(`"${option} <`), option);
    const names = [...settings.matchAll(/^(CUDA_IPC_\w+)=/gm)].map(([, name = ""]) => name);
    assert.ok(names.includes("CUDA_IPC_BRIDGE_INTERFACE"));
    for (const name of names) assert.ok(command.includes(`"${name}"`), name);
  });

  it("have a bridge of a whole machine that is a user of its own, whom the hub serves", {
    skip: existsSync("deploy") ? false : "the units are not here",
  }, () => {
    const unit = readFileSync("deploy/system/cuda-ipc-bridge.service", "utf8");
    const field = (name: string) => new RegExp(`^${name}=(.*)$`, "m").exec(unit)?.[1];
    const user = field("User");
    const hub = readFileSync("deploy/system/cuda-ipc-hub.service", "utf8");
    assert.ok(user !== undefined && !hub.includes(`\nUser=${user}\n`));
    const accounts = readFileSync("deploy/system/cuda-ipc.conf", "utf8");
    assert.match(accounts, new RegExp(`^u ${user} `, "m"));
    const { users } = JSON.parse(readFileSync("deploy/hub.json", "utf8")) as { users: string[] };
    assert.ok(users.includes(user));
    const folder = `/run/${field("RuntimeDirectory")}`;
    assert.equal(field("RuntimeDirectoryMode"), "0700");
    assert.ok(unit.includes(`\nEnvironment=CUDA_IPC_BRIDGE_SOCKET=${folder}/`));
  });
});
