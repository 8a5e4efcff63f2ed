/** Runs the inference server example with few requests. It kills one of its workers itself. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
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

  it("names an invalid option", async () => {
    await using rig = await CliRig.open();
    const { code, err } = await outcome(rig, "--workers", "0");
    assert.deepEqual(
      [code, err],
      [2, "error[USAGE]: --workers must be an integer from 1 to 64, not 0\n"],
    );
  });
});
