/** What a person sees of a copy that is under way, and of a NATS server that is away. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { skipWithoutEngines } from "../../support/machines/engines.js";
import { TestMachine } from "../../support/machines/test-machine.js";
import { TestNats } from "../../support/machines/test-nats.js";
import { untilCopying } from "../../support/machines/until-copying.js";
import { soon, until, untilRejects } from "../../support/until.js";

const BYTES = 256 * 1024 * 1024;

describe("several machines, as a person sees them", { skip: skipWithoutEngines }, () => {
  it("show how far a copy is, and how fast it comes, until it is published", async () => {
    await using nats = await TestNats.start();
    await using one = await TestMachine.start("one", nats, { args: ["--announce", "*"] });
    await using other = await TestMachine.start("other", nats);
    await using hubOfOne = await one.connect();
    await using hubOfOther = await other.connect();
    using _original = await hubOfOne.put("large", new Uint8Array(BYTES).fill(1));
    await one.says('announced: "large"');
    // It stands still, so that all that follows is about the same moment.
    one.hold();
    const opening = hubOfOther.open("large", { from: "any" });
    opening.catch(() => {});
    const status = async () => JSON.parse((await other.run("bridge", "status", "--json")).out);
    await untilCopying(other);
    const progress = /\d+ % of 256 MiB at [\d.]+ \w+\/s/.source;
    const lines = {
      "bridge status": `Copying "large" from "one": ${progress}\\.`,
      ls: `pinned, unpublished, replica of one, ${progress}`,
      "inspect large": `\\n {2}copied {6}${progress}\\n(.*\\n)* {2}values {6}not readable`,
    };
    // WHY repeated: a command leaves the progress out if the bridge does not answer in a second.
    for (const [command, line] of Object.entries(lines))
      await until(`${command} shows it`, async () => {
        const { out } = await other.run(...command.split(" "));
        return new RegExp(line).test(out);
      });
    let copy: Record<string, unknown> | undefined;
    await until("inspect knows it", async () => {
      copy = JSON.parse((await other.run("inspect", "large", "--json")).out).copy;
      return copy !== undefined;
    });
    assert.ok(copy !== undefined);
    assert.deepEqual([copy.machine, copy.totalBytes], ["one", BYTES]);
    assert.ok(Number(copy.doneBytes) < BYTES && Number.isInteger(copy.bytesPerSecond));
    // No other process sees it before it is whole.
    await assert.rejects(hubOfOther.open("large", { wait: false }), { code: "NOT_FOUND" });
    one.goOn();
    (await soon("the copy is there", opening)).close();
    assert.match((await other.run("ls")).out, / pinned, replica of one +\d/);
    assert.deepEqual((await status()).fetches, []);
  });

  it("say that NATS is away: once in the log, in the status, and in each error", async () => {
    await using nats = await TestNats.start();
    await using one = await TestMachine.start("one", nats, { args: ["--announce", "*"] });
    await using other = await TestMachine.start("other", nats);
    await using hubOfOne = await one.connect();
    await using hubOfOther = await other.connect();
    using _before = await hubOfOne.put("before", Uint8Array.of(7), { lifetime: "pinned" });
    (await hubOfOther.open("before", { from: "any" })).close();
    using writer = await hubOfOne.createChannel("frames", { byteLength: 8 });
    using reader = await hubOfOther.openChannel("frames", { machine: "any" });
    await assert.rejects(hubOfOther.open("new", { from: "any", wait: false }), {
      code: "NOT_FOUND",
      remedy: /cuda-ipc bridge status.*--announce/,
    });
    const opening = hubOfOther.open("new", { from: "any", timeoutMs: 90_000 });
    opening.catch(() => {});
    await nats.kill();
    await other.says("NATS does not answer");
    const { out } = await other.run("bridge", "status");
    assert.match(out, /^Machine "other": NATS has not answered for \d+ s; /);

    using _new = await hubOfOne.put("new", Uint8Array.of(1));
    const open = (options: object) => hubOfOther.open("new", { from: "any", ...options });
    await assert.rejects(open({ wait: false }), {
      code: "NOT_FOUND",
      message: /no machine has announced it, and NATS has not answered for \d+ s/,
    });
    await untilRejects(
      {
        code: "TIMEOUT",
        message: /not done within \d+ ms; NATS does not answer this machine's bridge/,
      },
      (timeoutMs) => open({ timeoutMs }),
    );
    const pull = await other.run("pull", "new", "--wait", "5s");
    assert.match(pull.error, /error\[TIMEOUT\]: .*NATS does not answer/);

    // What is there goes on.
    using before = await hubOfOther.open("before", { wait: false });
    assert.deepEqual([...((await before.read()) as Uint8Array)], [7]);
    (await writer.loan()).commit({ meta: "still" });
    using message = await reader.next({ timeoutMs: 10_000 });
    assert.equal(message?.json, "still");
    assert.equal(other.log.split("NATS").length - 1, 2, other.log);

    await nats.resume();
    using late = await soon("the wait that began before ends", opening);
    assert.equal(late.replicaOf?.machine, "one");
    await other.says("NATS answers again");
  });
});
