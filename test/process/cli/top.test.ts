/** `cuda-ipc top` as a person sees it, in a real pseudo-terminal, and as programs read it. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { connect } from "../../../src/client/connect.js";
import type { Hub } from "../../../src/client/hub.js";
import { HubWatch } from "../../../src/watch/hub-watch.js";
import { CliRig } from "./cli-rig.js";
import { skipTerminal, TerminalRig } from "./terminal-rig.js";

const MiB = 1024 ** 2;
const UP = "\u001b[A";
const DOWN = "\u001b[B";
const ESCAPE = "\u001b";

const pinned = (byteLength: number) =>
  ({ dtype: "uint8", shape: [byteLength], lifetime: "pinned" }) as const;

describe("cuda-ipc top on a terminal", { skip: skipTerminal }, () => {
  it("shows objects by size with their holders, and quits with q", async () => {
    await using rig = await TerminalRig.open();
    await using hub = await rig.cli.join();
    using small = await hub.create("small", pinned(4096));
    using large = await hub.create("large", pinned(3 * MiB));
    for (const array of [small, large]) await array.publish();
    rig.start("top");
    const text = await rig.shows(/^large /m);
    assert.match(text, /^cuda-ipc top {2}hub \d+, up .*, 2 objects, 1 client, 2 leases/);
    assert.match(text, /^host \[#=*\.+\] 3\.0 MiB hub, \S+ \S+ others, .* free of /m);
    assert.match(text, /^1 objects 2 {2}2 channels 0 {2}3 clients 1 {2}4 services 0/m);
    assert.match(text, /^NAME +SIZE\* +(DEVICE +)?HELD BY +.*AGE/m);
    assert.match(text, new RegExp(`^large +3 MiB .*top\\.test\\.js ${process.pid}`, "m"));
    assert.ok(text.indexOf("large") < text.indexOf("small"));
    assert.match(text, /^q quit {2}\? help {2}Enter details/m);
    rig.press("q");
    await rig.shows(/^ended 0$/m);
    await rig.isSane();
  });

  it("follows what changes, filters, sorts, and shows everything about a row", async () => {
    await using rig = await TerminalRig.open();
    await using hub = await rig.cli.join();
    using small = await hub.create("b-small", pinned(4096));
    using large = await hub.create("a-large", pinned(3 * MiB));
    for (const array of [small, large]) await array.publish();
    rig.start("top", "--interval", "100ms");
    await rig.shows(/^a-large .*\n *b-small /m);
    rig.press("r");
    await rig.shows(/^b-small .*\n *a-large /m);
    rig.press("rS");
    await rig.shows(/^NAME\* .*\na-large .*\nb-small /m);
    using late = await hub.create("c-late", pinned(4096));
    await late.publish();
    await rig.shows(/^c-late /m);
    rig.press("/LATE\r");
    const filtered = await rig.shows(/^filter: LATE {2}q quit/m);
    assert.doesNotMatch(filtered, /a-large/);
    rig.press("\r");
    const details = await rig.shows(/^held by +\S+ \d+, owner, since /m);
    assert.match(details, /^removal +frees 4 KiB once its lease ends$/m);
    assert.match(details, /^name +c-late\nwhat +uint8\[4096\]\nsize +4 KiB on host/m);
    rig.press(ESCAPE);
    await rig.shows(/^filter: LATE {2}q quit/m);
    rig.press(ESCAPE);
    await rig.shows(/^a-large /m);
    rig.press("?");
    await rig.shows(/^Ctrl-Z +suspend$/m);
    rig.press("q");
    await rig.shows(/^ended 0$/m);
  });

  it("shows how fast a channel goes and which reader is behind, and the clients", async () => {
    await using rig = await TerminalRig.open();
    await using hub = await rig.cli.join();
    const options = { dtype: "uint8", shape: [1000], slots: 64 } as const;
    using writer = await hub.createChannel("numbers", options);
    using reader = await hub.openChannel("numbers", { from: "oldest" });
    for (let count = 0; count < 5; count += 1) (await writer.loan()).commit();
    rig.start("top", "-i", "100ms");
    await rig.shows(/^numbers /m);
    rig.press("\t");
    await rig.shows(
      new RegExp(`^numbers +0 +0 bytes/s +5 top\\.test\\.js ${process.pid} +0 `, "m"),
    );
    for (let count = 0; count < 5; count += 1) (await writer.loan()).commit();
    (await reader.next())?.release();
    await rig.shows(/^numbers +\S+ .* 9 top\.test\.js \d+ +0 /m);
    rig.press("\r");
    await rig.shows(/^reader 0 +top\.test\.js \d+: 9 messages behind/m);
    rig.press(`${ESCAPE}`);
    await rig.shows(/^numbers /m);
    rig.press("3");
    const clients = await rig.shows(/^PROGRAM /m);
    assert.match(clients, new RegExp(`^top\\.test\\.js +\\S+ \\S+ +${process.pid} `, "m"));
    rig.press("4");
    await rig.shows(/^There are no services\.$/m);
    rig.press("5");
    await rig.shows(/^DEVICE +BY HUB\*/m);
    rig.press("q");
    await rig.shows(/^ended 0$/m);
  });

  it("fits into 20 columns, and redraws when it is resized", async () => {
    await using rig = await TerminalRig.open(10, 20);
    await using hub = await rig.cli.join();
    const name = "a-name-that-is-much-longer-than-the-terminal";
    using array = await hub.create(name, pinned(4096));
    await array.publish();
    rig.start("top");
    const narrow = await rig.shows(/^a-name-\S+~ +4 KiB$/m);
    for (const line of narrow.split("\n")) assert.ok(line.length <= 20, line);
    assert.equal(narrow.split("\n").length, 10);
    rig.resize(30, 120);
    const wide = await rig.shows(new RegExp(`^${name} `, "m"));
    assert.match(wide, /^q quit .*p pause$/m);
    rig.resize(3, 5);
    await rig.shows(/^NAME$\n^a-na~$/m);
    rig.resize(24, 80);
    await rig.shows(new RegExp(`^${name.slice(0, 15)}`, "m"));
    rig.press("q");
    await rig.shows(/^ended 0$/m);
    await rig.isSane();
  });

  it("shows programs with terminal escapes and HTML as text, and names of 255 bytes", async () => {
    await using rig = await TerminalRig.open(24, 100);
    const program = "\u001b[2J\u001b]0;evil\u0007<b>bold</b>\u202e";
    await using hub = await connect({ socket: rig.cli.socket, device: "host", program });
    const name = `n${"x".repeat(254)}`;
    using array = await hub.create(name, pinned(4096));
    await array.publish();
    rig.start("top");
    const text = await rig.shows(/^nx+~ /m);
    assert.match(text, /\\u001b\[2J/);
    rig.press("\r");
    const details = await rig.shows(/^name +nx/m);
    assert.equal(details.replaceAll(/[^x]/g, "").length >= 254, true);
    assert.match(details, /\\u001b\[2J\\u001b\]0;evil\\u0007<b>bold<\/b>\\u202e/);
    rig.press(`${ESCAPE}`);
    await rig.shows(/^nx+~ /m);
    rig.press("/\u202e");
    await rig.shows(/^filter: \\u202e_$/m);
    rig.press("\rq");
    await rig.shows(/^ended 0$/m);
    await rig.isSane();
  });

  it("says that the hub was killed, and goes on with the next one", async () => {
    await using rig = await TerminalRig.open();
    await using hub = await rig.cli.join();
    using array = await hub.create("kept", pinned(4096));
    await array.publish();
    const { pid } = await hub.status();
    rig.start("top", "-i", "100ms");
    await rig.shows(/^kept /m);
    process.kill(pid, "SIGKILL");
    const text = await rig.shows(/^The hub ended\. Process \d+ is the next one\.$/m);
    assert.ok(!text.includes(`Process ${pid}`));
    await rig.shows(/^kept /m);
    await hub.stop({ force: true });
    await rig.shows(/^No hub answers: .*Looking for/m);
    await rig.shows(/^Nothing is shared\.$/m);
    await using second = await rig.cli.join();
    using next = await second.create("second", pinned(4096));
    await next.publish();
    await rig.shows(/^second /m);
    rig.press("q");
    await rig.shows(/^ended 0$/m);
  });

  it("waits for a hub if there is none", async () => {
    await using rig = await TerminalRig.open();
    rig.start("top", "-i", "100ms");
    await rig.shows(/^No hub answers: .*Looking for the next one/m);
    await using hub = await rig.cli.join();
    using array = await hub.create("first", pinned(4096));
    await array.publish();
    await rig.shows(/^first /m);
    rig.press("q");
    await rig.shows(/^ended 0$/m);
  });

  for (const [what, key, code] of [
    ["Ctrl-C", "\u0003", 130],
    ["SIGTERM", "SIGTERM", 143],
    ["SIGHUP", "SIGHUP", 129],
  ] as const) {
    it(`leaves a sane terminal after ${what}`, async () => {
      await using rig = await TerminalRig.open();
      await using hub = await rig.cli.join();
      using array = await hub.create("x", pinned(4096));
      await array.publish();
      rig.start("top");
      await rig.shows(/^x /m);
      if (key.startsWith("SIG")) process.kill(await topPid(hub), key as NodeJS.Signals);
      else rig.press(key);
      await rig.shows(new RegExp(`^ended ${code}$`, "m"));
      await rig.isSane();
    });
  }

  it("gives the terminal back while it is suspended, and goes on after fg", async () => {
    await using rig = await TerminalRig.open();
    await using hub = await rig.cli.join();
    using array = await hub.create("x", pinned(4096));
    await array.publish();
    rig.start("top", "-i", "100ms");
    await rig.shows(/^x /m);
    rig.press("\u001a");
    await rig.shows(/Stopped/);
    await rig.isSane();
    assert.equal((await hub.status()).clients, 1, "it has left the hub");
    using other = await hub.create("meanwhile", pinned(4096));
    await other.publish();
    rig.press("fg\n");
    await rig.shows(/^meanwhile /m);
    rig.press(`${DOWN}${UP}q`);
    await rig.shows(/^shell>$/m);
    await rig.isSane();
  });
});

/** The process of the only client that is `top`. */
async function topPid(hub: Hub): Promise<number> {
  await using watch = new HubWatch({ socket: hub.socketPath, program: "test" });
  const { clients } = await watch.snapshot();
  return clients.find(({ program }) => program === "cuda-ipc top")?.pid ?? assert.fail("no top");
}

describe("cuda-ipc top without a terminal", () => {
  it("prints everything once", async () => {
    await using rig = await CliRig.open();
    await using hub = await rig.join();
    using array = await hub.create("frame", pinned(4096));
    await array.publish();
    using channel = await hub.createChannel("numbers", {
      dtype: "uint8",
      shape: [8],
      slots: 4,
    });
    assert.ok(channel.open);
    const text = await rig.ok("top", "--interval", "100ms");
    assert.match(text, /^hub \d+, up .*, 2 objects, 1 client/);
    for (const title of ["objects", "channels", "clients", "services", "devices"])
      assert.match(text, new RegExp(`^${title}$`, "m"));
    assert.match(text, /^frame +4 KiB +host +top\.test\.js \d+ /m);
    assert.match(text, /^numbers +0 +- +no readers/m);
    assert.match(
      await rig.ok("top", "--filter", "frame"),
      /^channels\nNothing matches "frame"\.$/m,
    );
    const told = await rig.json<{
      objects: { name: string; holders: unknown[] }[];
      channels: { name: string; rates: { messages: number } }[];
    }>("top", "-i", "100ms");
    assert.deepEqual(told.objects.map(({ name }) => name).sort(), ["frame", "numbers"]);
    assert.deepEqual(told.channels[0]?.rates, { messages: 0, bytes: null, dropped: 0 });
  });

  it("says that no hub runs", async () => {
    await using rig = await CliRig.open();
    const text = await rig.ok("top");
    assert.match(text, /^Nothing is shared: no hub runs at .+\.\n/);
    assert.match(text, /^host +0 bytes /m);
    const { hub } = await rig.json<{ hub: { answers: boolean } }>("top");
    assert.equal(hub.answers, false);
  });

  it("refuses an interval that is too short or no time", async () => {
    await using rig = await CliRig.open();
    for (const time of ["50ms", "2h", "x"]) await rig.fails("USAGE", "top", "--interval", time);
  });
});
