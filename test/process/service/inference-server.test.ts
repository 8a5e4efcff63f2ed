/** Runs the inference server example with few requests. It kills one of its workers itself. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { exampleHead, saidIn } from "../../docs/example-output.js";
import { CliRig } from "../cli/cli-rig.js";

const MAIN = fileURLToPath(new URL("../../../examples/inference-server/main.js", import.meta.url));

async function outcome(
  rig: CliRig,
  ...args: string[]
): Promise<{ code: number | null; out: string; err: string }> {
  const child = spawn(process.execPath, [MAIN, ...args], {
    env: rig.env,
    stdio: "pipe",
    timeout: 120_000,
  });
  const texts = [child.stdout, child.stderr].map((stream) => {
    const parts: Buffer[] = [];
    stream.on("data", (part) => parts.push(part));
    return parts;
  });
  const [code] = await once(child, "close");
  const [out = "", err = ""] = texts.map((parts) => Buffer.concat(parts).toString());
  return { code, out, err };
}

describe("the inference server", () => {
  it("answers every request correctly although a worker is killed", async () => {
    await using rig = await CliRig.open();
    const { code, out, err } = await outcome(
      rig,
      "--workers",
      "2",
      "--requests",
      "24",
      "--device",
      "host",
    );
    assert.deepEqual([code, err], [0, ""]);
    const { lines } = exampleHead("inference-server/main");
    const said = saidIn(out);
    assert.equal(said.length, lines.length);
    // There is one share for each worker that answered.
    const shares = said.pop() ?? "";
    assert.match(
      shares,
      /^24 images of 2 formats, all correct, \d+ retried; by workers (\d+: \d+(, )?){2,3}$/,
    );
    for (const [i, line] of said.entries()) assert.match(line, lines[i] as RegExp);
  });

  it("has its weights in shared memory once, and each worker maps them for reading", async () => {
    await using rig = await CliRig.open();
    const args = ["--serve", "--workers", "2", "--device", "host"];
    const server = spawn(process.execPath, [MAIN, ...args], { env: rig.env, timeout: 120_000 });
    try {
      const workers: number[] = [];
      for await (const line of createInterface({ input: server.stdout })) {
        const [, pids] = /2 workers: ([\d, ]+)$/.exec(line) ?? [];
        if (pids === undefined) continue;
        workers.push(...pids.split(", ").map(Number));
        break;
      }
      await using hub = await rig.join();
      const { object, holders } = await hub.inspect(`model-${server.pid}`);
      assert.equal(object.descriptor.content.kind, "bundle");
      const found = holders.map(({ pid, access }) => `${pid} ${access}`).sort();
      const wanted = [`${server.pid} owner`, ...workers.map((pid) => `${pid} read`)].sort();
      assert.deepEqual(found, wanted);
    } finally {
      const ended = once(server, "close");
      server.kill("SIGINT");
      await ended;
    }
  });

  it("names an invalid option", async () => {
    await using rig = await CliRig.open();
    const { code, err } = await outcome(rig, "--workers", "0");
    assert.deepEqual(
      [code, err],
      [2, "error[USAGE]: --workers must be an integer from 1 to 64, not 0\n"],
    );
  });
});
