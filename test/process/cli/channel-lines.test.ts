/** Lines and frames through a channel, like in a pipe, and how either side ends. */
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { open, readFile, writeFile } from "node:fs/promises";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { CliRig, eventually, type Started } from "./cli-rig.js";

const LAUNCH = fileURLToPath(new URL("../../../src/cli/launch.cjs", import.meta.url));

function numbers(from: number, to: number): string {
  return Array.from({ length: to - from + 1 }, (_, i) => `${from + i}\n`).join("");
}

/** Resolves when standard error matches. */
async function said({ child }: Started, what: RegExp): Promise<void> {
  let text = "";
  assert.ok(child.stderr !== null);
  for await (const piece of child.stderr.iterator({ destroyOnReturn: false })) {
    text += String(piece);
    if (what.test(text)) return;
  }
  assert.fail(`the command ended and printed: ${text}`);
}

function readers(rig: CliRig, name: string, count: number): Promise<true> {
  return eventually(`${count} readers of ${name}`, async () => {
    const { code, stdout } = await rig.run("channel", "stat", name, "--json");
    return code === 0 && JSON.parse(stdout).readers.length === count ? true : undefined;
  });
}

describe("cuda-ipc channel send and receive of lines", () => {
  it("sends each line to two receivers that wait for the channel", async () => {
    await using rig = await CliRig.open();
    const receivers = [
      rig.start("channel", "receive", "n", "--lines"),
      rig.start("channel", "receive", "n", "--lines"),
    ];
    await Promise.all(receivers.map((one) => said(one, /^Waiting for channel "n"/)));
    const sender = rig.start(
      "channel",
      "send",
      "n",
      "--lines",
      "--wait-readers",
      "2",
      "--slots",
      "2",
    );
    sender.child.stdin?.end(numbers(1, 1000));
    for (const { outcome } of receivers) {
      const { code, stdout } = await outcome;
      assert.equal(code, 0);
      assert.equal(stdout, numbers(1, 1000));
    }
    const { code, stdout } = await sender.outcome;
    assert.equal(code, 0);
    assert.match(stdout, /^Sent 1000 messages, 2\.8 KiB in .+\.\n$/);
    assert.equal(await rig.ok("ls"), "Nothing is shared.\n");
  });

  it("keeps empty lines, a last line without a break, and bytes that are not text", async () => {
    await using rig = await CliRig.open();
    const bytes = Buffer.from([10, 255, 0, 13, 10, 10, 65]);
    await writeFile(rig.path("in"), bytes);
    const receiver = rig.start("channel", "receive", "n", "--lines", "--output", "out");
    const said = await rig.ok("channel", "send", "n", "--lines", "in");
    assert.match(said, /^Sent 4 messages, 4 bytes in /);
    assert.match((await receiver.outcome).stdout, /^Received 4 messages, 4 bytes in /);
    assert.deepEqual(await readFile(rig.path("out")), Buffer.concat([bytes, Buffer.of(10)]));
  });

  it("refuses a line that is too long for a slot, after sending those before it", async () => {
    await using rig = await CliRig.open();
    await writeFile(rig.path("in"), "one\ntwo\nlonger\nfour\n");
    const receiver = rig.start("channel", "receive", "n", "--lines");
    const { code, stderr } = await rig.run(
      "channel",
      "send",
      "n",
      "in",
      "--lines",
      "--byte-length",
      "5",
    );
    assert.equal(code, 1);
    assert.match(
      stderr,
      /error\[MESSAGE_TOO_LARGE\]: Cannot send line 3 of in to channel "n": .+\n {2}hint: .+ --byte-length/,
    );
    assert.deepEqual(await receiver.outcome.then(({ code, stdout }) => [code, stdout]), [
      0,
      "one\ntwo\n",
    ]);
  });

  it("cuts frames, and names the last one if it is incomplete", async () => {
    await using rig = await CliRig.open();
    const receiver = rig.start("channel", "receive", "n", "--output", "-");
    const sender = rig.start("channel", "send", "n", "--frames", "4", "--wait-readers", "1");
    sender.child.stdin?.end("abcdefghij");
    const { code, stdout, stderr } = await sender.outcome;
    assert.equal(code, 1);
    assert.match(stdout, /^Sent 2 messages, 8 bytes/);
    assert.match(
      stderr,
      /error\[INVALID_FILE\]: Cannot read "standard input": it ends in frame 3, after 2 of 4 bytes\./,
    );
    assert.deepEqual(await receiver.outcome.then((it) => [it.code, it.stdout]), [0, "abcdefgh"]);
  });

  it("ends quietly when the reader of its output is gone", async () => {
    await using rig = await CliRig.open();
    const script = '"$0" "$1" channel receive n --lines | head -2';
    const child = spawn("sh", ["-c", script, process.execPath, LAUNCH], { env: rig.env });
    const pieces: Buffer[] = [];
    child.stdout.on("data", (piece: Buffer) => pieces.push(piece));
    const errors: Buffer[] = [];
    child.stderr.on("data", (piece: Buffer) => errors.push(piece));
    const sender = rig.start("channel", "send", "n", "--lines");
    sender.child.stdin?.end(numbers(1, 100_000));
    await once(child, "close");
    assert.equal(Buffer.concat(pieces).toString(), "1\n2\n");
    assert.doesNotMatch(Buffer.concat(errors).toString(), /error/);
    assert.equal((await sender.outcome).code, 0);
  });

  it("reports a full disk", async () => {
    await using rig = await CliRig.open();
    const full = await open("/dev/full", "w");
    const child = spawn(process.execPath, [LAUNCH, "channel", "receive", "n", "--lines"], {
      env: rig.env,
      stdio: ["ignore", full.fd, "pipe"],
    });
    let stderr = "";
    child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      stderr += text;
    });
    const toFile = rig.start("channel", "receive", "n", "--output", "/dev/full", "--force");
    const sender = rig.start("channel", "send", "n", "--lines", "--wait-readers", "2");
    sender.child.stdin?.end(numbers(1, 100_000));
    const [code] = await once(child, "close");
    await full.close();
    assert.equal(code, 1);
    assert.match(stderr, /^error\[DISK_FULL\]: Cannot write .+\n {2}hint: Free some space\.\n$/m);
    const outcome = await toFile.outcome;
    assert.equal(outcome.code, 1);
    assert.match(
      outcome.stderr,
      /^error\[DISK_FULL\]: Cannot write "\/dev\/full": .+\n {2}hint: Free .+\.\n$/m,
    );
    assert.equal((await sender.outcome).code, 0);
  });

  const canMount =
    spawnSync("unshare", ["-rm", "mount", "-t", "tmpfs", "none", "/mnt"]).status === 0;
  it("reports a disk that takes only half of the output", {
    skip: canMount ? false : "no file system can be mounted",
  }, async () => {
    await using rig = await CliRig.open();
    const script =
      'mount -t tmpfs -o size=16k none /mnt && "$0" "$1" channel receive n --output - > /mnt/out; echo $?; cat /mnt/out | wc -c';
    const child = spawn("unshare", ["-rm", "sh", "-c", script, process.execPath, LAUNCH], {
      env: rig.env,
    });
    let stdout = "";
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      stdout += text;
    });
    child.stderr.resume();
    const sender = rig.start("channel", "send", "n", "--frames", "20000");
    sender.child.stdin?.end(Buffer.alloc(20_000));
    await once(child, "close");
    assert.equal(stdout.split("\n")[0], "1");
    await sender.outcome;
  });
});

describe("a channel on the command line whose sender ends", () => {
  it("ends for the receivers after Ctrl-C", async () => {
    await using rig = await CliRig.open();
    const receiver = rig.start("channel", "receive", "n", "--lines");
    const sender = rig.start("channel", "send", "n", "--lines");
    sender.child.stdin?.write(numbers(1, 10));
    await readers(rig, "n", 1);
    sender.child.kill("SIGINT");
    const { code, stderr } = await sender.outcome;
    assert.equal(code, 130);
    assert.match(stderr, /Interrupted\.\n$/);
    const received = await receiver.outcome;
    assert.equal(received.code, 0, received.stderr);
    assert.ok(numbers(1, 10).startsWith(received.stdout));
    assert.equal(await rig.ok("ls"), "Nothing is shared.\n");
  });

  it("makes receivers fail after SIGKILL, once they have received everything", async () => {
    await using rig = await CliRig.open();
    const receiver = rig.start("channel", "receive", "n", "--lines");
    const sender = rig.start("channel", "send", "n", "--lines");
    sender.child.stdin?.write(numbers(1, 10));
    await eventually("ten messages", async () => {
      const { code, stdout } = await rig.run("channel", "stat", "n", "--json");
      return code === 0 && JSON.parse(stdout).committed === 10 ? true : undefined;
    });
    sender.child.kill("SIGKILL");
    const { code, stdout, stderr } = await receiver.outcome;
    assert.deepEqual([code, stdout], [1, numbers(1, 10)]);
    assert.match(
      stderr,
      /error\[PEER_GONE\]: Cannot read channel "n": .+\n {2}hint: Start the sender again\./,
    );
  });

  it("continues with --resume after --keep, and ends with a sender without --keep", async () => {
    await using rig = await CliRig.open();
    const receiver = rig.start("channel", "receive", "n", "--lines");
    const first = rig.start("channel", "send", "n", "--lines", "--keep");
    first.child.stdin?.end(numbers(1, 5));
    assert.equal((await first.outcome).code, 0);
    await rig.fails("NAME_TAKEN", "channel", "send", "n", "--frames", "1");
    const second = rig.start("channel", "send", "n", "--lines", "--resume", "--keep");
    second.child.stdin?.write(numbers(6, 7));
    await eventually("seven messages", async () =>
      (await rig.json<{ committed: number }>("channel", "stat", "n")).committed === 7
        ? true
        : undefined,
    );
    assert.match(
      await rig.fails("IN_USE", "channel", "send", "n", "--lines", "--resume"),
      /hint: A channel has one sender/,
    );
    second.child.kill("SIGKILL");
    await second.outcome;
    await eventually("the next one is awaited", async () =>
      (await rig.json<{ writer: string }>("channel", "stat", "n")).writer === "awaited"
        ? true
        : undefined,
    );
    const third = rig.start("channel", "send", "n", "--lines", "--resume");
    third.child.stdin?.end(numbers(8, 10));
    assert.equal((await third.outcome).code, 0);
    assert.deepEqual(await receiver.outcome.then((it) => [it.code, it.stdout]), [
      0,
      numbers(1, 10),
    ]);
    assert.equal(await rig.ok("ls"), "Nothing is shared.\n");
  });
});

describe("a receiver on the command line that ends early", () => {
  it("ends at Ctrl-C even if nothing reads its output, and the sender finishes", async () => {
    await using rig = await CliRig.open();
    const receiver = rig.start("channel", "receive", "n", "--output", "-");
    receiver.child.stdout?.pause();
    const sender = rig.start("channel", "send", "n", "--frames", "1MiB", "--slots", "1");
    sender.child.stdin?.end(Buffer.alloc(8 * 1024 * 1024));
    await eventually("it holds a message", async () => {
      const { code, stdout } = await rig.run("channel", "stat", "n", "--json");
      return code === 0 && JSON.parse(stdout).readers[0]?.behind === 1 ? true : undefined;
    });
    receiver.child.kill("SIGINT");
    const [code] = await once(receiver.child, "exit");
    assert.equal(code, 130);
    assert.equal((await sender.outcome).code, 0);
  });

  it("ends after --count messages, and other receivers continue", async () => {
    await using rig = await CliRig.open();
    const [three, all] = [["--count", "3"], []].map((more) =>
      rig.start("channel", "receive", "n", "--lines", ...more),
    );
    const sender = rig.start(
      "channel",
      "send",
      "n",
      "--lines",
      "--wait-readers",
      "2",
      "--slots",
      "1",
    );
    sender.child.stdin?.end(numbers(1, 100));
    assert.deepEqual(await three?.outcome.then((it) => [it.code, it.stdout]), [0, numbers(1, 3)]);
    assert.deepEqual(await all?.outcome.then((it) => [it.code, it.stdout]), [0, numbers(1, 100)]);
    await sender.outcome;
  });
});
