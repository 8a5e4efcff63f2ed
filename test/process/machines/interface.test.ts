/** Where a bridge listens: at the one network interface that its user named, and nowhere else. */
import assert from "node:assert/strict";
import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { networkInterfaces } from "node:os";
import { describe, it } from "node:test";
import { skipWithoutEngines } from "../../support/machines/engines.js";
import { TestMachine } from "../../support/machines/test-machine.js";
import { TestNats } from "../../support/machines/test-nats.js";
import { TestNetwork } from "../../support/machines/test-network.js";

const LISTENS = "0A";
const FIRST_PORT = 23_000;

describe("a bridge", { skip: skipWithoutEngines }, () => {
  for (const transports of ["tcp", "all"])
    it(`listens at the address of its interface alone, with UCX_TLS=${transports}`, async () => {
      await using nats = await TestNats.start();
      const env = {
        UCX_TLS: transports,
        UCX_NET_DEVICES: "all",
        UCX_TCP_PORT_RANGE: `${FIRST_PORT}-${FIRST_PORT + 999}`,
      };
      const args = ["--announce", "*"];
      await using one = await TestMachine.start("one", nats, { args, env });
      await using other = await TestMachine.start("other", nats, { env });
      await usesBoth(one, other);
      for (const machine of [one, other]) {
        const sockets = openPorts(machine.bridgePid);
        assert.ok(sockets.length > 0);
        for (const { address, port } of sockets) {
          assert.equal(address, "127.0.0.1");
          assert.ok(port >= FIRST_PORT && port < FIRST_PORT + 1000, String(port));
        }
        assert.match(
          machine.log,
          /it listens on "lo" alone: who reaches that can take this bridge/,
        );
      }
    });

  it("listens at the address of an interface that other machines reach", {
    skip: TestNetwork.whyNot(),
  }, async () => {
    using network = new TestNetwork();
    await using nats = await TestNats.start(["-js"], network.address);
    const within = network.join();
    const address = network.lastAddress;
    const args = ["--announce", "*"];
    await using one = await TestMachine.start("one", nats, { args, within });
    await using other = await TestMachine.start("other", nats, { within: network.join() });
    await usesBoth(one, other);
    const sockets = openPorts(one.bridgePid);
    assert.ok(sockets.length > 0);
    assert.deepEqual([...new Set(sockets.map((it) => it.address))], [address]);
  });

  it("does not start without an interface, and says which there are", async () => {
    await using nats = await TestNats.start();
    await using machine = await TestMachine.start("one", nats);
    const there = Object.keys(networkInterfaces()).sort().join(", ");
    const wrong: Record<string, string> = {
      "": `name the interface on which other machines reach UCX, with --interface: this machine has ${there}`,
      none0: `there is no interface "none0" for --interface: this machine has ${there}`,
      "^lo": `there is no interface "^lo" for --interface: this machine has ${there}`,
      "0.0.0.0": `there is no interface "0.0.0.0" for --interface: this machine has ${there}`,
    };
    for (const [name, message] of Object.entries(wrong)) {
      const { code, error } = await machine.run("bridge", "--nats", nats.url, "--interface", name);
      assert.equal(code, 2);
      assert.ok(error.startsWith(`error[USAGE]: ${message}`), error);
      assert.equal(error.trimEnd().split("\n").length, 1);
    }
  });
});

/** A link, over which something went. */
async function usesBoth(one: TestMachine, other: TestMachine): Promise<void> {
  await using hubOfOne = await one.connect();
  await using hubOfOther = await other.connect();
  using _original = await hubOfOne.put("there", Uint8Array.of(1, 2, 3));
  using copy = await hubOfOther.open("there", { from: "any", dtype: "uint8" });
  assert.deepEqual([...(await copy.read())], [1, 2, 3]);
}

interface OpenPort {
  readonly address: string;
  readonly port: number;
}

/** The ports of a process that others can reach: sockets of TCP that listen, and all of UDP. */
function openPorts(pid: number): OpenPort[] {
  const sockets = new Set(socketsOf(pid));
  return ["tcp", "tcp6", "udp", "udp6", "raw", "raw6"].flatMap((protocol) =>
    readFileSync(`/proc/${pid}/net/${protocol}`, "utf8")
      .split("\n")
      .slice(1)
      .map((line) => line.trim().split(/\s+/))
      .filter((words) => sockets.has(words[9] ?? ""))
      .filter((words) => !protocol.startsWith("tcp") || words[3] === LISTENS)
      .map((words) => openPort(words[1] ?? "")),
  );
}

function socketsOf(pid: number): string[] {
  const folder = `/proc/${pid}/fd`;
  return readdirSync(folder).flatMap((fd) => {
    try {
      const [, inode] = /^socket:\[(\d+)\]$/.exec(readlinkSync(`${folder}/${fd}`)) ?? [];
      return inode === undefined ? [] : [inode];
    } catch {
      // It was closed meanwhile.
      return [];
    }
  });
}

/** From `0100007F:D0FD`. An address of IPv6 stays as it is. */
function openPort(text: string): OpenPort {
  const [hex = "", port = ""] = text.split(":");
  const bytes = hex.length === 8 ? [...Buffer.from(hex, "hex")].reverse() : undefined;
  return { address: bytes?.join(".") ?? hex, port: Number.parseInt(port, 16) };
}
