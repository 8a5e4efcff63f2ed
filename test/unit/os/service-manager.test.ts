import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { fstatSync, unlinkSync } from "node:fs";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { hasCode } from "../../../src/base/errors.js";
import { createMemoryFile } from "../../../src/os/memory-file.js";
import { receivedFds } from "../../../src/os/received-fds.js";
import { ServiceManager } from "../../../src/os/service-manager.js";
import { checkLeaks } from "../../support/leak-check.js";
import { StandInManager } from "../../support/stand-in-manager.js";
import { TestFolder } from "../../support/test-folder.js";

const SERVICE = fileURLToPath(new URL("./actors/is-service.js", import.meta.url));

interface Service {
  readonly received?: readonly { name: string; inode: number; flags: string }[];
  readonly again?: number;
  readonly left?: readonly string[];
  readonly code?: string;
  readonly message?: string;
  readonly openFds?: number;
}

/** A process as systemd starts it: the variables hold its own pid, which only it knows. */
function asService(variables: string, fds: readonly number[]): Service {
  const script = `export LISTEN_PID=$$ ${variables}; exec "$0" "$1"`;
  const { stdout, stderr } = spawnSync("sh", ["-c", script, process.execPath, SERVICE], {
    stdio: ["ignore", "pipe", "pipe", ...fds],
    encoding: "utf8",
  });
  assert.notEqual(stdout, "", stderr);
  return JSON.parse(stdout) as Service;
}

describe("receivedFds", () => {
  checkLeaks();

  it("returns the descriptors with their names, closed on exec, and removes the variables", () => {
    using one = createMemoryFile("one", 10);
    using two = createMemoryFile("two", 10);
    const { received, again, left } = asService(
      "LISTEN_FDS=3 LISTEN_FDNAMES=hub.socket::hub.socket",
      [one.number, two.number, one.number],
    );
    const [first, second] = [one, two].map((fd) => fstatSync(fd.number).ino);
    assert.deepEqual(
      received?.map(({ name, inode }) => [name, inode]),
      [
        ["hub.socket", first],
        ["unknown", second],
        ["hub.socket", first],
      ],
    );
    for (const { flags } of received ?? [])
      assert.match(flags, /^02\d{6}$/, "O_CLOEXEC (02000000) is set");
    assert.deepEqual([again, left], [0, []]);
  });

  it('calls descriptors without a name "unknown"', () => {
    using file = createMemoryFile("one", 10);
    const { received } = asService("LISTEN_FDS=1", [file.number]);
    assert.deepEqual(
      received?.map(({ name }) => name),
      ["unknown"],
    );
  });

  it("names a missing descriptor, and takes none", () => {
    using file = createMemoryFile("one", 10);
    const { code, message, openFds, left } = asService("LISTEN_FDS=500", [file.number]);
    assert.equal(code, "SYSTEM_ERROR");
    assert.match(
      message ?? "",
      /^Cannot take over descriptor \d+ of the 500 that .*: fcntl failed with EBADF$/,
    );
    assert.deepEqual([openFds, left], [0, []]);
  });

  it("returns none for another process, and removes the variables", () => {
    const env = { LISTEN_PID: "1", LISTEN_FDS: "3", LISTEN_FDNAMES: "a:b:c", PATH: "/bin" };
    assert.deepEqual(receivedFds(env, 2), []);
    assert.deepEqual(env, { PATH: "/bin" });
  });

  it("returns none if none were passed", () => {
    for (const env of [
      {},
      { LISTEN_FDS: "1" },
      { LISTEN_PID: "2" },
      { LISTEN_PID: "2", LISTEN_FDS: "0" },
    ]) {
      assert.deepEqual(receivedFds(env, 2), []);
    }
  });

  const nonsense = [
    { LISTEN_FDS: "-1" },
    { LISTEN_FDS: "1.5" },
    { LISTEN_FDS: "" },
    { LISTEN_FDS: "1000000000000" },
    { LISTEN_FDS: "1", LISTEN_PID: "me" },
    { LISTEN_FDS: "2", LISTEN_FDNAMES: "one" },
    { LISTEN_FDS: "0", LISTEN_FDNAMES: "one:two" },
  ];
  for (const variables of nonsense) {
    it(`refuses ${JSON.stringify(variables)}, and removes the variables`, () => {
      const env = { LISTEN_PID: "2", ...variables };
      assert.throws(
        () => receivedFds(env, 2),
        (error) =>
          hasCode(error, "INVALID_MESSAGE") && /^Cannot understand .* wanted /.test(error.message),
      );
      assert.deepEqual(env, {});
    });
  }
});

describe("ServiceManager", () => {
  checkLeaks();

  function managerAt(address: string): ServiceManager {
    const manager = ServiceManager.fromEnv({ NOTIFY_SOCKET: address });
    assert.ok(manager !== undefined);
    return manager;
  }

  it("is undefined without NOTIFY_SOCKET, and is found once", () => {
    const env = { NOTIFY_SOCKET: "/run/notify" };
    assert.ok(ServiceManager.fromEnv(env) instanceof ServiceManager);
    assert.deepEqual(env, {});
    assert.equal(ServiceManager.fromEnv(env), undefined);
    assert.equal(ServiceManager.fromEnv({ NOTIFY_SOCKET: "" }), undefined);
  });

  for (const address of [
    "relative",
    "vsock:2:1",
    "@",
    "/a\0b",
    `/${"x".repeat(107)}`,
    `@${"x".repeat(107)}`,
  ]) {
    it(`refuses the address ${JSON.stringify(address.slice(0, 20))}`, () => {
      assert.throws(
        () => managerAt(address),
        (error) => hasCode(error, "INVALID_MESSAGE"),
      );
    });
  }

  it("sends states to a path and to an abstract name of any length", () => {
    using folder = new TestFolder();
    const name = `@cuda-ipc-test-${process.pid}-`;
    for (const address of [folder.file("notify"), name, name.padEnd(107, "x")]) {
      using standIn = new StandInManager(address);
      const manager = managerAt(address);
      assert.equal(manager.notify("READY=1\nSTATUS=serves"), true);
      assert.equal(manager.notify("STOPPING=1"), true);
      assert.deepEqual(
        [standIn.read()?.text, standIn.read()?.text],
        ["READY=1\nSTATUS=serves", "STOPPING=1"],
      );
    }
  });

  it("stores descriptors under a name, and removes them", () => {
    using folder = new TestFolder();
    using standIn = new StandInManager(folder.file("notify"));
    const manager = managerAt(folder.file("notify"));
    using one = createMemoryFile("one", 10);
    using two = createMemoryFile("two", 10);
    assert.equal(manager.store("object-7", [one, two]), true);
    assert.equal(manager.remove("object-7"), true);
    const told = standIn.read();
    assert.equal(told?.text, "FDSTORE=1\nFDNAME=object-7\nFDPOLL=0");
    assert.deepEqual(
      told?.fds.map((fd) => fstatSync(fd.number).ino),
      [one, two].map((fd) => fstatSync(fd.number).ino),
    );
    for (const fd of told?.fds ?? []) fd.close();
    assert.deepEqual(standIn.read(), { text: "FDSTOREREMOVE=1\nFDNAME=object-7", fds: [] });
    assert.deepEqual([one.closed, two.closed], [false, false]);
  });

  it("returns false if the manager does not read, and true after it has", () => {
    using folder = new TestFolder();
    using standIn = new StandInManager(folder.file("notify"));
    const manager = managerAt(folder.file("notify"));
    using file = createMemoryFile("test", 10);
    while (manager.notify("STATUS=busy"));
    assert.deepEqual([manager.store("x", [file]), manager.remove("x")], [false, false]);
    while (standIn.read() !== undefined);
    assert.equal(manager.notify("STATUS=busy"), true);
  });

  it("throws if the manager is gone, and finds the next one at the same address", () => {
    using folder = new TestFolder();
    const path = folder.file("notify");
    const manager = managerAt(path);
    assert.throws(
      () => manager.notify("READY=1"),
      /^SystemError: Cannot tell the service manager at .*ENOENT/,
    );
    new StandInManager(path)[Symbol.dispose]();
    assert.throws(() => manager.notify("READY=1"), /ECONNREFUSED/);
    unlinkSync(path);
    using next = new StandInManager(path);
    assert.equal(manager.notify("READY=1"), true);
    assert.equal(next.read()?.text, "READY=1");
  });

  it("refuses the same as systemd", () => {
    const manager = managerAt("/run/notify");
    using file = createMemoryFile("test", 10);
    for (const name of ["", "a:b", "a\nFDSTOREREMOVE=1", "ä", "x".repeat(256)]) {
      assert.throws(() => manager.store(name, [file]), TypeError);
      assert.throws(() => manager.remove(name), TypeError);
    }
    assert.throws(() => manager.store("x", []), RangeError);
    assert.throws(() => manager.notify(""), TypeError);
    assert.throws(() => manager.notify("READY=1\0"), TypeError);
  });

  it("refuses more descriptors than fit into a message", () => {
    using folder = new TestFolder();
    using standIn = new StandInManager(folder.file("notify"));
    using file = createMemoryFile("test", 10);
    assert.throws(
      () => managerAt(folder.file("notify")).store("x", new Array(254).fill(file)),
      RangeError,
    );
    assert.equal(standIn.read(), undefined);
  });
});
