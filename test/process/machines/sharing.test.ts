/** Each way in which an owner says that other machines may have an object. */
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { after, afterEach, before, describe, it } from "node:test";
import { Deadline } from "../../../src/base/deadline.js";
import { serve } from "../../../src/service/service.js";
import { skipWithoutEngines } from "../../support/machines/engines.js";
import { HostileMachine } from "../../support/machines/hostile-machine.js";
import { TwoMachines } from "../../support/machines/two-machines.js";
import { PythonProgram } from "../../support/python-program.js";
import { noPytest } from "../../support/run-pytest.js";
import { until } from "../../support/until.js";

const FOR_MACHINES = { sharing: { machines: true } } as const;

const PYTHON = `
import array, sys, cuda_ipc
with cuda_ipc.connect(sys.argv[1], start=False) as hub:
    machines = {"machines": True}
    made = hub.create("made", "float64", 3, sharing=machines)
    made.write(array.array("d", [1.5, 2.5, 3.5]))
    made.publish()
    put = hub.put("put", bytes([4, 5, 6]), sharing=machines)
    own = hub.put("own", bytes([7]))
    print("shared", flush=True)
    sys.stdin.readline()
`;

describe("an object whose owner lets other machines have it", { skip: skipWithoutEngines }, () => {
  let site: TwoMachines;

  before(async () => {
    // Its bridge announces nothing on its own.
    site = await TwoMachines.start({});
  });
  after(() => site?.[Symbol.asyncDispose]());
  afterEach(async () => {
    for (const hub of [site.hubOfOne, site.hubOfOther]) {
      for (const { name, lifetime } of await hub.list())
        if (lifetime === "pinned") await hub.remove(name).catch(() => {});
      await until("nothing is left", async () => (await hub.list()).length === 0);
    }
  });

  /** Of a copy on the other machine. */
  async function valuesOf(name: string): Promise<number[]> {
    using copy = await site.hubOfOther.open(name, { from: "any", timeoutMs: 20_000 });
    assert.equal(copy.replicaOf?.machine, "one");
    return [...((await copy.read()) as Float64Array)];
  }

  /** Not for the other machine. Looked for when a later name has been seen there. */
  async function isUnseen(name: string): Promise<void> {
    await assert.rejects(site.hubOfOther.open(name, { from: "any", wait: false }), {
      code: "NOT_FOUND",
      message: /no machine has announced it/,
    });
  }

  it("was put with --machines, and others were put without it", async () => {
    const { one } = site;
    const file = one.hub.folder.file("values.bin");
    writeFileSync(file, Float64Array.of(1, -2, 3.25));
    const raw = [file, "--dtype", "float64"];
    assert.equal((await one.run("put", "own", ...raw)).code, 0);
    const { code, error } = await one.run("put", "values", ...raw, "--machines");
    assert.equal(code, 0, error);
    assert.deepEqual(await valuesOf("values"), [1, -2, 3.25]);
    await isUnseen("own");
    assert.match((await one.run("ls", "values")).out, /machines/);
    assert.match((await site.other.run("pull", "values")).out, /a copy from "one"/);
  });

  it("was created with `sharing: { machines: true }`, as an array or a bundle", async () => {
    const { hubOfOne, hubOfOther } = site;
    using own = await hubOfOne.create("own", { dtype: "uint8", shape: [1] });
    await own.publish();
    const frame = { dtype: "float64", shape: [2] } as const;
    using array = await hubOfOne.create("made", { ...frame, ...FOR_MACHINES });
    await array.write(Float64Array.of(7, 8));
    await array.publish();
    assert.deepEqual(await valuesOf("made"), [7, 8]);
    await isUnseen("own");
    using bundle = await hubOfOne.createBundle("bundle", { a: frame }, FOR_MACHINES);
    await bundle.array("a").write(Float64Array.of(9, 10));
    await bundle.publish();
    using copy = await hubOfOther.openBundle("bundle", { from: "any", timeoutMs: 20_000 });
    assert.deepEqual([...(await copy.array("a").read())], [9, 10]);
    using writer = await hubOfOne.createChannel("frames", { ...frame, ...FOR_MACHINES });
    const reading = { machine: "any", timeoutMs: 20_000 } as const;
    using reader = await hubOfOther.openChannel("frames", reading);
    (await writer.loan()).commit({ meta: "crossed" });
    using message = await reader.next({ timeoutMs: 10_000 });
    assert.equal(message?.json, "crossed");
  });

  it("is all that a machine gets, also if it asks for others by name and number", async () => {
    process.env.UCX_TLS = "tcp";
    await using asks = await HostileMachine.start(site.nats, "asks");
    const { hubOfOne } = site;
    using _own = await hubOfOne.put("own", Uint8Array.of(1));
    using _frames = await hubOfOne.createChannel("own-frames", { byteLength: 8 });
    const message = { dtype: "uint8", shape: [1] } as const;
    const options = { request: message, reply: message } as const;
    await using _service = await serve(hubOfOne, "own-work", options, async () => {});
    const entry = await asks.store.read("machine.one");
    const { instance } = JSON.parse(Buffer.from(entry?.value ?? []).toString());
    const deadline = new Deadline("ask", {}, 20_000);
    const link = await asks.links.to("one", instance, deadline);
    const numberOf = async (name: string) => (await hubOfOne.inspect(name)).object.object;
    const [array, frames] = [await numberOf("own"), await numberOf("own-frames")];
    const answers = [
      link.call({ op: "export", name: "own", object: array }, deadline),
      link.call({ op: "join", name: "own-frames", object: frames }, deadline),
      link.call({ op: "claim", service: "own-work", except: [] }, deadline),
    ];
    for (const answer of answers) await assert.rejects(answer, { code: "NOT_FOUND" });
  });

  it("was created or put by Python with sharing={'machines': True}", {
    skip: noPytest,
  }, async () => {
    await using python = new PythonProgram(PYTHON, site.one.hub.socket);
    await python.says("shared");
    assert.deepEqual(await valuesOf("put"), [4, 5, 6]);
    assert.deepEqual(await valuesOf("made"), [1.5, 2.5, 3.5]);
    await isUnseen("own");
  });
});
