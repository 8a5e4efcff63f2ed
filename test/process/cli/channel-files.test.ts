/** Files through a channel byte for byte, reports on messages and channels, and refusals. */
import assert from "node:assert/strict";
import { copyFile, readdir, readFile, writeFile } from "node:fs/promises";
import { describe, it } from "node:test";
import { encodeNpyHeader } from "../../../src/files/npy-header.js";
import { CliRig, eventually } from "./cli-rig.js";

const FIXTURES = ["float32", "bool", "complex128", "int64", "scalar", "version-2", "float16"];

function npy(shape: number[], first: number): Buffer {
  const values = Float32Array.from(
    { length: shape.reduce((a, b) => a * b, 1) },
    (_, i) => first + i,
  );
  return Buffer.concat([encodeNpyHeader("float32", shape), new Uint8Array(values.buffer)]);
}

describe("cuda-ipc channel send and receive of files", () => {
  for (const name of FIXTURES) {
    it(`returns the elements of ${name}.npy byte for byte`, async () => {
      await using rig = await CliRig.open();
      await copyFile(`test/fixtures/npy/${name}.npy`, rig.path("in.npy"));
      const receiver = rig.start("channel", "receive", "n", "--output", "out.npy");
      await rig.ok("channel", "send", "n", "in.npy");
      assert.equal((await receiver.outcome).code, 0);
      const [wanted, found] = await Promise.all([
        readFile(rig.path("in.npy")),
        readFile(rig.path("out.npy")),
      ]);
      // WHY only the data: a header of another version comes back as version 1.
      const dataBytes = found.byteLength - (10 + found.readUInt16LE(8));
      assert.ok(dataBytes > 0);
      assert.deepEqual(found.subarray(-dataBytes), wanted.subarray(-dataBytes));
      if (name !== "version-2") assert.deepEqual(found, wanted);
    });
  }

  it("writes each message to its own file with its shape, and prints JSON about it", async () => {
    await using rig = await CliRig.open();
    await writeFile(rig.path("a.npy"), npy([4, 3], 0));
    await writeFile(rig.path("b.npy"), npy([2, 3], 100));
    const receiver = rig.start("channel", "receive", "n", "--output", "got-%03d.npy", "--json");
    const sent = await rig.ok(
      "channel",
      "send",
      "n",
      "a.npy",
      "b.npy",
      "--repeat",
      "2",
      "--meta",
      '{"camera":1}',
    );
    assert.match(sent, /^Sent 4 of 4 messages, 144 bytes in /);
    const { code, stdout } = await receiver.outcome;
    assert.equal(code, 0);
    const told = stdout
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line));
    for (const [i, { timestampMs, ...facts }] of told.entries()) {
      assert.ok(Math.abs(Date.now() - timestampMs) < 3_600_000);
      const shape = i % 2 === 0 ? [4, 3] : [2, 3];
      const byteLength = i % 2 === 0 ? 48 : 24;
      assert.deepEqual(facts, {
        sequence: i,
        missed: 0,
        byteLength,
        dtype: "float32",
        shape,
        meta: { camera: 1 },
      });
      const [source, copy] = [i % 2 === 0 ? "a.npy" : "b.npy", `got-00${i}.npy`];
      assert.deepEqual(await readFile(rig.path(copy)), await readFile(rig.path(source)));
    }
    assert.equal(told.length, 4);
  });

  it("sends several .npy from standard input and writes them the same way", async () => {
    await using rig = await CliRig.open();
    const all = Buffer.concat([npy([4, 3], 0), npy([12], 7), npy([1, 1], 9), npy([0, 3], 0)]);
    const receiver = rig.start("channel", "receive", "n", "--npy", "--output", "out");
    const sender = rig.start("channel", "send", "n", "--npy");
    sender.child.stdin?.end(all);
    assert.deepEqual(await sender.outcome.then((it) => it.code), 0);
    assert.equal((await receiver.outcome).code, 0);
    assert.deepEqual(await readFile(rig.path("out")), all);
  });

  it("sends each raw file as a message of its size", async () => {
    await using rig = await CliRig.open();
    await writeFile(rig.path("a"), "abc");
    await writeFile(rig.path("b"), "defghi");
    await writeFile(rig.path("c"), "");
    const receiver = rig.start("channel", "receive", "n", "--output", "%d.bin");
    await rig.ok("channel", "send", "n", "a", "b", "c");
    await receiver.outcome;
    for (const [i, text] of ["abc", "defghi", ""].entries()) {
      assert.equal(await readFile(rig.path(`${i}.bin`), "utf8"), text);
    }
  });

  it("names the reason if a file cannot be sent, and leaves nothing behind", async () => {
    await using rig = await CliRig.open();
    await writeFile(rig.path("a.npy"), npy([2], 0));
    await writeFile(rig.path("large.npy"), npy([3], 0));
    await writeFile(rig.path("bad.npy"), "no numpy");
    await writeFile(rig.path("raw"), "abc");
    await copyFile("test/fixtures/npy/int64.npy", rig.path("other.npy"));
    await copyFile("test/fixtures/npy/fortran.npy", rig.path("fortran.npy"));
    const send = (code: string, ...args: string[]) =>
      rig.fails(code, "channel", "send", "n", "--wait-readers", "0", ...args);
    await send("INVALID_FILE", "absent.npy");
    await send("INVALID_FILE", "bad.npy");
    assert.match(
      await send("INVALID_FILE", "fortran.npy"),
      /Fortran order.+\n {2}hint: .+ascontiguousarray/,
    );
    assert.match(
      await send("MESSAGE_TOO_LARGE", "a.npy", "large.npy"),
      /"large\.npy" .+more than 8 bytes/,
    );
    assert.match(
      await send("INVALID_FILE", "a.npy", "other.npy"),
      /its dtype is int64, that of the channel is float32/,
    );
    assert.match(await send("INVALID_FILE", "a.npy", "raw"), /3 bytes, no whole number of float32/);
    await writeFile(rig.path("a.npz"), "abc");
    assert.match(await send("INVALID_FILE", "a.npz"), /it is an archive\.\n {2}hint: .*--frames/);
    await rig.fails("INVALID_NAME", "channel", "send", "no/name", "a.npy");
    await rig.fails("INVALID_DEVICE", "channel", "send", "n", "a.npy", "--device", "gpu");
    await send("NOT_FOUND", "a.npy", "--resume");
    assert.equal(await rig.ok("ls"), "Nothing is shared.\n");
  });

  it("replaces a file only with --force", async () => {
    await using rig = await CliRig.open();
    await writeFile(rig.path("there"), "mine");
    await rig.fails("FILE_EXISTS", "channel", "receive", "n", "--output", "there");
    const receiver = rig.start("channel", "receive", "n", "--output", "there", "--force");
    const sender = rig.start("channel", "send", "n", "--frames", "3");
    sender.child.stdin?.end("new");
    assert.equal((await receiver.outcome).code, 0);
    await sender.outcome;
    assert.equal(await readFile(rig.path("there"), "utf8"), "new");
    assert.deepEqual(
      (await readdir(rig.folder)).filter((name) => name.endsWith(".tmp")),
      [],
    );
  });
});

describe("a channel on the command line", () => {
  it("is shown with its readers by ls, inspect and stat, and refused by get", async () => {
    await using rig = await CliRig.open();
    const receiver = rig.start("channel", "receive", "n", "--lossy");
    const sender = rig.start(
      "channel",
      "send",
      "n",
      "--lines",
      "--byte-length",
      "100",
      "--readers-max",
      "1",
    );
    sender.child.stdin?.write("one\ntwo\n");
    const stat = () =>
      rig.json<{ committed: number; readers: { received: number }[] }>("channel", "stat", "n");
    await eventually("two messages were received", async () => {
      const { code, stdout } = await rig.run("channel", "stat", "n", "--json");
      return code === 0 && JSON.parse(stdout).readers[0]?.received === 2 ? true : undefined;
    });
    const { committed, readers } = await stat();
    assert.deepEqual([committed, readers.length], [2, 1]);
    assert.match(await rig.ok("ls"), /\nn +channel of 8 x uint8\[100\], 1 reader +/);
    const inspected = await rig.ok("inspect", "n");
    assert.match(inspected, /^n: channel of 8 x uint8\[100\]\n/);
    assert.match(
      inspected,
      / {2}holders +process \d+ \(cuda-ipc channel send\), writer, .+\n +process \d+ .+, reader 0, /,
    );
    assert.match(inspected, / {2}committed +2 messages\n/);
    const text = await rig.ok("channel", "stat", "n", "--interval", "10");
    assert.match(text, /^n: channel of 8 x uint8\[100\]\n {2}writer +connected\n/);
    assert.match(
      text,
      /\n {2}READER +RECEIVED +BEHIND +MISSED +PER SECOND +STATE\n +0 +2 +0 +0 +0 +asleep, lossy\n$/,
    );
    const rates = await rig.json<{ rates: { committed: number } }>(
      "channel",
      "stat",
      "n",
      "--interval",
      "10",
    );
    assert.equal(rates.rates.committed, 0);
    assert.match(
      await rig.fails("READERS_FULL", "channel", "receive", "n"),
      /hint: End another receiver/,
    );
    await rig.fails("WRONG_KIND", "get", "n", "out");
    const watch = rig.start("channel", "stat", "n", "--watch", "--json", "--interval", "10");
    await new Promise((resolve) => watch.child.stdout?.once("data", resolve));
    sender.child.stdin?.end();
    await Promise.all([sender.outcome, receiver.outcome]);
    const watched = await watch.outcome;
    assert.equal(watched.code, 0);
    const last = watched.stdout.trimEnd().split("\n").at(-1) ?? "";
    assert.deepEqual([JSON.parse(last).writer, JSON.parse(last).committed], ["closed", 2]);
    for (const command of ["receive", "stat"]) {
      await rig.fails(
        "NOT_FOUND",
        "channel",
        command,
        "n",
        ...(command === "receive" ? ["--no-wait"] : []),
      );
    }
  });

  it("does not wait for a receiver with --lossy, which counts what it missed", async () => {
    await using rig = await CliRig.open();
    const receiver = rig.start("channel", "receive", "n", "--output", "-", "--lossy");
    receiver.child.stdout?.pause();
    const sender = rig.start("channel", "send", "n", "--frames", "1MiB", "--slots", "2");
    sender.child.stdin?.end(Buffer.alloc(32 * 1024 * 1024));
    assert.match((await sender.outcome).stdout, /^Sent 32 messages/);
    receiver.child.stdout?.resume();
    const { code, stderr } = await receiver.outcome;
    assert.equal(code, 0);
    const [, received, missed] =
      /Received (\d+) messages?, .+; (\d+) missed\.\n$/.exec(stderr) ?? [];
    assert.equal(Number(received) + Number(missed), 32, stderr);
  });

  it("fails or drops the new message if every slot is in use, as --when-full says", async () => {
    await using rig = await CliRig.open();
    await writeFile(rig.path("in"), Buffer.alloc(8 * 1024 * 1024));
    for (const [policy, code] of [
      ["error", 1],
      ["drop-newest", 0],
    ] as const) {
      const receiver = rig.start("channel", "receive", "n", "--output", "-");
      receiver.child.stdout?.pause();
      const sender = rig.start(
        "channel",
        "send",
        "n",
        "in",
        "--frames",
        "1MiB",
        "--slots",
        "2",
        "--when-full",
        policy,
      );
      const outcome = await sender.outcome;
      assert.equal(outcome.code, code, outcome.stderr);
      if (policy === "error")
        assert.match(outcome.stderr, /error\[CHANNEL_FULL\]: .+\n {2}hint: Send with more --slots/);
      else assert.match(outcome.stdout, /; \d dropped\.\n$/);
      receiver.child.stdout?.resume();
      assert.equal((await receiver.outcome).code, 0);
    }
  });
});
