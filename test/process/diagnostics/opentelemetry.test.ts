/** The spans of examples/opentelemetry, which a producer and a consumer make with the real SDK. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { exampleHead, saidIn } from "../../docs/example-output.js";
import { CliRig, type Outcome, outcomeOf } from "../cli/cli-rig.js";

const MAIN = fileURLToPath(new URL("../../../examples/opentelemetry/main.js", import.meta.url));

interface Span {
  readonly pid: number;
  readonly name: string;
  readonly kind: string;
  readonly traceId: string;
  readonly spanId: string;
  readonly parentId?: string;
  readonly links: readonly string[];
  readonly attributes: Readonly<Record<string, unknown>>;
}

function run(rig: CliRig, ...args: string[]): Promise<Outcome> {
  return outcomeOf(spawn(process.execPath, [MAIN, ...args], { env: rig.env, timeout: 60_000 }));
}

describe("the OpenTelemetry example", () => {
  it("has a span for each operation and message, with the conventions' attributes", async () => {
    await using rig = await CliRig.open();
    const { code, stdout, stderr } = await run(rig, "json");
    assert.deepEqual([code, stderr], [0, ""]);
    const lines = stdout.split("\n").filter((line) => line.startsWith("{"));
    const spans = lines.map((line) => JSON.parse(line) as Span);
    const named = (name: string) => spans.filter((span) => span.name === name);
    const producer = named("produce")[0]?.pid;
    const channel = `frames-${producer}`;
    const [produce] = named("produce");
    const sent = named(`send ${channel}`);
    const processed = named(`process ${channel}`);
    const looked = named("look at frame");
    assert.deepEqual([sent.length, processed.length, looked.length], [3, 3, 3]);
    for (const [index, send] of sent.entries()) {
      const [process, look] = [processed[index], looked[index]];
      assert.deepEqual(
        [send.kind, send.pid, send.parentId],
        ["PRODUCER", producer, produce?.spanId],
      );
      assert.equal(process?.kind, "CONSUMER");
      assert.notEqual(process.pid, producer);
      assert.deepEqual([process.parentId, process.links], [send.spanId, [send.spanId]]);
      assert.equal(look?.parentId, process.spanId);
      for (const span of [send, process, look]) assert.equal(span.traceId, produce?.traceId);
      const attributes = (operation: string) => ({
        "messaging.system": "cuda_ipc",
        "messaging.operation.type": operation,
        "messaging.operation.name": operation,
        "messaging.destination.name": channel,
        "messaging.message.id": String(index),
        "messaging.message.body.size": 4096,
      });
      assert.deepEqual(send.attributes, attributes("send"));
      assert.deepEqual(process.attributes, { ...attributes("process"), "cuda_ipc.missed": 0 });
      assert.deepEqual(look.attributes, { first: index });
    }
    const [created] = named(`create ${channel}`);
    assert.deepEqual(
      [created?.kind, created?.attributes],
      [
        "CLIENT",
        { "cuda_ipc.name": channel, "cuda_ipc.kind": "channel", "cuda_ipc.byte_length": 16_384 },
      ],
    );
    const [opened] = named(`open ${channel}`);
    assert.equal(opened?.attributes["cuda_ipc.role"], "reader");
    assert.equal(named("connect").length, 2);
  });

  it("prints what its first comment says", async () => {
    await using rig = await CliRig.open();
    const { code, stdout, stderr } = await run(rig);
    assert.deepEqual([code, stderr], [0, ""]);
    const { lines } = exampleHead("opentelemetry/main");
    const said = saidIn(stdout);
    assert.equal(said.length, lines.length);
    for (const [index, line] of said.entries()) assert.match(line, lines[index] as RegExp);
  });
});
