import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import type { Inspection } from "../../../src/client/hub-options.js";
import type { HeldObject } from "../../../src/wire/messages.js";
import { until } from "../../support/until.js";
import { CliRig } from "./cli-rig.js";

const LAUNCH = fileURLToPath(new URL("../../../src/cli/launch.cjs", import.meta.url));
/** Runs a command on its own terminal. */
const SCRIPT = "/usr/bin/script";

describe("cuda-ipc ls", () => {
  it("says that no hub runs, and starts none", async () => {
    await using rig = await CliRig.open();
    assert.equal(await rig.ok("ls"), `Nothing is shared: no hub runs at ${rig.socket}.\n`);
    assert.deepEqual(await rig.json("ls"), []);
    assert.match(await rig.statusWithoutHub(), /^No hub runs at /);
  });

  it("lists what is shared, including unpublished objects", async () => {
    await using rig = await CliRig.open();
    await using hub = await rig.join();
    using _first = await hub.create("first", { dtype: "float32", shape: [2, 3] });
    using second = await hub.createBundle(
      "second",
      { a: { dtype: "int8", shape: [3] } },
      { lifetime: "pinned" },
    );
    await second.publish();
    const [titles, ...rows] = (await rig.ok("ls")).trimEnd().split("\n");
    assert.match(titles ?? "", /^NAME +WHAT +SIZE +DEVICE +LIFETIME +LEASES +OWNER +AGE$/);
    assert.match(
      rows[0] ?? "",
      new RegExp(
        `^first +float32\\[2, 3\\] +24 bytes +host +held, unpublished +1 +${process.pid} +\\d+ s$`,
      ),
    );
    assert.match(rows[1] ?? "", /^second +bundle of 1 +3 bytes +host +pinned +1 /);
    const objects = await rig.json<Inspection["object"][]>("ls");
    assert.deepEqual(
      objects.map(({ name, published }) => [name, published]),
      [
        ["first", false],
        ["second", true],
      ],
    );
  });

  it("lists with --all what was replaced or removed and is still held, and who holds it", async () => {
    await using rig = await CliRig.open();
    await using hub = await rig.join("producer.mjs");
    await using other = await rig.join("reader.py");
    using _old = await hub.put("frame", new Uint8Array(5000));
    using _held = await other.open("frame");
    using now = await hub.put("frame", new Uint8Array(3), { replace: true });
    const holder = (program: string) => `${program} ${process.pid}`;
    assert.doesNotMatch(await rig.ok("ls"), /\(frame\)|HELD BY/);
    const [titles, ...rows] = (await rig.ok("ls", "--all")).trimEnd().split("\n");
    assert.match(titles ?? "", / AGE +HELD BY$/);
    assert.match(rows[0] ?? "", new RegExp(`^frame +.+ held .+ ${holder("producer.mjs")}$`));
    const held = `${holder("producer.mjs")}, ${holder("reader.py")}`;
    assert.match(rows[1] ?? "", new RegExp(`^\\(frame\\) .+ host +no name +2 .+ ${held}$`));
    assert.equal(rows.length, 2);
    const listed = await rig.json<HeldObject[]>("ls", "--all");
    assert.deepEqual(
      listed.map((it) => [it.name, it.nameless, it.holders?.map(({ program }) => program)]),
      [
        ["frame", undefined, ["producer.mjs"]],
        ["frame", true, ["producer.mjs", "reader.py"]],
      ],
    );
    assert.match(
      await rig.ok("hub", "status"),
      /\n +1 without a name \(see ls --all\): 8 KiB on the host, 0 bytes on GPUs, held by produ/,
    );
    await hub.remove("frame");
    assert.equal((await rig.json<HeldObject[]>("ls", "--all", "frame")).length, 2);
    now.close();
    await until("the removed object has ended", async () => {
      return (await hub.list({ all: true })).length === 1;
    });
    const { objects, nameless } = await rig.json<Record<string, HeldObject[]>>("top");
    assert.deepEqual([objects?.length, nameless?.length], [0, 1]);
    assert.match(await rig.ok("top", "--once"), new RegExp(`\\(frame\\) +8 KiB .+ ${held}`));
  });

  it("lists the names that are given, and those that match a pattern", async () => {
    await using rig = await CliRig.open();
    assert.match(await rig.fails("NOT_FOUND", "ls", "a*"), /because no hub runs/);
    await using hub = await rig.join();
    const names = ["a.1", "a.2", "a.10", "ax1", "b"];
    for (const name of names) await hub.create(name, { dtype: "int8", shape: [1] });
    const listed = async (...patterns: string[]) =>
      (await rig.json<Inspection["object"][]>("ls", ...patterns)).map(({ name }) => name).sort();
    assert.deepEqual(await listed("a.?"), ["a.1", "a.2"]);
    assert.deepEqual(await listed("a.*", "b", "a.1"), ["a.1", "a.10", "a.2", "b"]);
    assert.deepEqual(await listed("*"), [...names].sort());
    assert.match(await rig.fails("NOT_FOUND", "ls", "b", "c*"), /Cannot list "c\*"/);
  });

  it("shortens long names on a terminal, and never elsewhere", async (t) => {
    await using rig = await CliRig.open();
    await using hub = await rig.join();
    const name = "n".repeat(255);
    using _array = await hub.create(name, { dtype: "int8", shape: [1] });
    assert.ok((await rig.ok("ls")).includes(`\n${name}  int8[1]  1 byte `));
    assert.equal((await rig.json<Inspection["object"][]>("ls"))[0]?.name, name);
    const command = `${process.execPath} ${LAUNCH} ls`;
    if (!existsSync(SCRIPT)) return t.skip(`no ${SCRIPT} to make a terminal`);
    const { stdout } = spawnSync(SCRIPT, ["-qec", command, "/dev/null"], {
      env: rig.env,
      encoding: "utf8",
    });
    assert.match(stdout, /\nn{37}\.\.\. {2}int8\[1\] /);
  });

  it("ends quietly when the reader of its output is gone", async () => {
    await using rig = await CliRig.open();
    await using hub = await rig.join();
    const made = [];
    for (let i = 0; i < 300; i += 1)
      made.push(await hub.create(`a${i}`, { dtype: "int8", shape: [1] }));
    const { child, outcome } = rig.start("ls", "--json");
    child.stdout?.destroy();
    const { code, stderr } = await outcome;
    assert.deepEqual([code, stderr], [0, ""]);
    for (const array of made) array.close();
  });
});

describe("cuda-ipc inspect", () => {
  it("prints everything about an array, including its values", async () => {
    await using rig = await CliRig.open();
    await using hub = await rig.join();
    using array = await hub.create("x", { dtype: "float32", shape: [2, 3] });
    await array.write([0.5, Number.NaN, -2, 0, Number.POSITIVE_INFINITY, 1]);
    await array.publish();
    const text = await rig.ok("inspect", "x");
    assert.match(text, /^x: float32\[2, 3\]\n/);
    assert.match(text, /device +host\n/);
    assert.match(text, /mechanism +memfd: /);
    assert.match(text, new RegExp(`holders +process ${process.pid} \\(.+\\), owner, for \\d+ s\n`));
    assert.match(text, /removal +frees 4 KiB once its lease ends\n/);
    assert.match(text, /values +0\.5, NaN, -2, 0, Infinity, 1\n/);
    assert.match(text, /range +-2 to Infinity, mean -0\.125\n/);
    assert.match(text, /special +1 zero, 1 NaN, 1 infinite of 6 elements\n/);
  });

  it("prints a histogram of an array, and refuses one of anything else", async () => {
    await using rig = await CliRig.open();
    await using hub = await rig.join();
    const values = Float32Array.from({ length: 400 }, (_, i) => (i < 300 ? 0 : i / 400));
    using _ = await hub.put("x", Float32Array.of(...values, Number.NaN));
    using _steps = await hub.put(
      "steps",
      Int32Array.from({ length: 300_000 }, (_, i) => i % 3),
    );
    using __ = await hub.createTimeline("t");
    using bundle = await hub.createBundle("b", { a: { dtype: "int8", shape: [2] } });
    await bundle.publish();
    const text = await rig.ok("inspect", "x", "--histogram");
    assert.match(text, /^ {2}VALUES +COUNT\n {2}0 to 0\.062344 +300 {2}#{30}$/m);
    assert.match(text, /^ {2}0\.93516 to 0\.9975 +25 {2}###\n$/m);
    const sampled = await rig.ok("inspect", "steps", "--histogram");
    assert.match(sampled, /^ {2}0 +\d+ {2}#+\n {2}1 +\d+ {2}#+\n {2}2 +\d+ {2}#+$/m);
    assert.match(sampled, /^ {2}from \d+ of 300000 elements, evenly spread\n$/m);
    type Told = { histogram: { counts: number[]; nanCount: number } };
    const { histogram } = await rig.json<Told>("inspect", "x", "--histogram");
    assert.deepEqual([histogram.counts[0], histogram.nanCount], [300, 1]);
    const ofArray = await rig.ok("inspect", "b", "--array", "a", "--histogram");
    assert.match(ofArray, /^ {2}0 +2 {2}#{30}\n$/m);
    assert.match(await rig.fails("WRONG_KIND", "inspect", "b", "--histogram"), /with --array/);
    assert.match(await rig.fails("WRONG_KIND", "inspect", "t", "--histogram"), /it is no array/);
  });

  it("prints the same in JSON", async () => {
    await using rig = await CliRig.open();
    await using hub = await rig.join();
    using array = await hub.create("x", { dtype: "int64", shape: [3] });
    await array.write([-(2n ** 60n), 5n, 7n]);
    await array.publish();
    type Told = Inspection & {
      values: { statistics: Record<string, unknown>; firstValues: string[] };
      device: { name: string };
    };
    const told = await rig.json<Told>("inspect", "x");
    assert.deepEqual(told.object.descriptor.content, {
      kind: "array",
      array: { dtype: "int64", shape: [3], strides: [1], byteOffset: 0 },
    });
    assert.equal(told.holders[0]?.pid, process.pid);
    assert.equal(told.device.name, "host");
    assert.deepEqual(told.values.firstValues, [String(-(2n ** 60n)), "5", "7"]);
    assert.equal(told.values.statistics.min, String(-(2n ** 60n)));
    assert.equal(told.values.statistics.elementCount, 3);
  });

  it("prints the value of a timeline", async () => {
    await using rig = await CliRig.open();
    await using hub = await rig.join();
    using timeline = await hub.createTimeline("steps");
    timeline.signal(2n ** 60n);
    const text = await rig.ok("inspect", "steps");
    assert.match(text, /^steps: timeline\n/);
    assert.match(text, /value +1152921504606846976\n/);
    const told = await rig.json<{ timeline: unknown }>("inspect", "steps");
    assert.deepEqual(told.timeline, { value: String(2n ** 60n), ended: false });
    assert.match(await rig.ok("ls"), /^steps +timeline /m);
  });

  it("lists the first arrays of a bundle, or all with --all", async () => {
    await using rig = await CliRig.open();
    await using hub = await rig.join();
    const arrays = Object.fromEntries(
      Array.from({ length: 30 }, (_, i) => [`a${i}`, { dtype: "int16", shape: [i] } as const]),
    );
    using bundle = await hub.createBundle("b", arrays, { metadata: { format: "pt" } });
    await bundle.array("a3").write([3, 4, 5]);
    await bundle.publish();
    const some = await rig.ok("inspect", "b");
    assert.match(some, /metadata +format: pt\n/);
    assert.match(some, /^ {2}a19 +int16\[19\] +38 bytes$/m);
    assert.match(some, /and 10 more: see --all\n$/);
    assert.match(await rig.ok("inspect", "b", "--all"), /^ {2}a29 +int16\[29\]/m);
    const one = await rig.ok("inspect", "b", "--array", "a3");
    assert.match(one, /^a3: int16\[3\]$/m);
    assert.match(one, /range +3 to 5, mean 4\n/);
    const said = await rig.fails("NOT_FOUND", "inspect", "b", "--array", "absent");
    assert.match(said, /hint: List its arrays with: cuda-ipc inspect NAME --all\n$/);
  });

  it("prints that an unpublished array cannot be read, and names a missing one", async () => {
    await using rig = await CliRig.open();
    await using hub = await rig.join();
    using _array = await hub.create("x", { dtype: "int8", shape: [3] });
    assert.match(
      await rig.ok("inspect", "x"),
      /values +not readable here: it is not published yet\n$/,
    );
    await rig.fails("NOT_FOUND", "inspect", "absent");
    await rig.fails("INVALID_NAME", "inspect", "no/name");
  });
});

describe("cuda-ipc rm", () => {
  it("removes each name, and fails if one does not exist", async () => {
    await using rig = await CliRig.open();
    await rig.fails("NOT_FOUND", "rm", "x");
    await using hub = await rig.join();
    for (const name of ["a", "b"]) {
      using array = await hub.create(name, { dtype: "int8", shape: [3], lifetime: "pinned" });
      await array.publish();
    }
    const { code, stdout, stderr } = await rig.run("rm", "a", "absent", "b");
    assert.equal(code, 1);
    assert.equal(stdout, 'Removed "a".\nRemoved "b".\n');
    assert.match(stderr, /^error\[NOT_FOUND\]: Cannot remove "absent"/);
    assert.deepEqual(await rig.json("ls"), []);
  });

  it("removes what matches a pattern, and nothing if one matches nothing", async () => {
    await using rig = await CliRig.open();
    await using hub = await rig.join();
    for (const name of ["a-1", "a-2", "ab", "c"]) {
      using array = await hub.create(name, { dtype: "int8", shape: [3], lifetime: "pinned" });
      await array.publish();
    }
    assert.match(await rig.fails("NOT_FOUND", "rm", "c", "z*"), /Cannot remove "z\*"/);
    assert.equal(
      await rig.ok("rm", "c", "a-*", "a-1"),
      'Removed "c".\nRemoved "a-1".\nRemoved "a-2".\n',
    );
    const left = await rig.json<Inspection["object"][]>("ls");
    assert.deepEqual(
      left.map(({ name }) => name),
      ["ab"],
    );
  });
});
