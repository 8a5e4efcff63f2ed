/**
 * Services of supervised workers under MPS. If one is killed while its kernel runs, all others lose
 * their contexts.
 */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { describe, it, type TestContext } from "node:test";
import { fileURLToPath } from "node:url";
import { saidIn } from "../docs/example-output.js";
import { startMps, whyNoMps } from "../support/mps-server.js";
import { TestFolder } from "../support/test-folder.js";
import { soon } from "../support/until.js";

const WORKERS = 3;

/** Runs a program to its end under its own MPS server, without an error, and returns its output. */
async function saidBy(t: TestContext, program: string): Promise<string> {
  using mps = startMps();
  await using folder = new TestFolder();
  const path = fileURLToPath(new URL(program, import.meta.url));
  const args = [path, "--device", "cuda:0", "--processes", String(WORKERS)];
  const env: NodeJS.ProcessEnv = { ...process.env, ...mps.env, CUDA_IPC_SOCKET: folder.socket };
  delete env.NODE_TEST_CONTEXT;
  const child = spawn(process.execPath, args, { env, stdio: ["ignore", "pipe", "pipe"] });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8").on("data", (text: string) => {
      output += text;
    });
  }
  const [code] = await soon("the program ends", once(child, "close"));
  for (const line of saidIn(output)) t.diagnostic(line);
  assert.equal(code, 0, output);
  return output;
}

describe("supervised workers under MPS", { skip: whyNoMps() ?? false }, () => {
  it("all lose their device if one is killed at work, and new ones answer the rest", async (t) => {
    const output = await saidBy(t, "actors/mps-service.js");
    assert.match(
      output,
      new RegExp(`of ${WORKERS} workers 1 was killed and ${WORKERS - 1} lost their device`),
    );
    assert.match(
      output,
      /12 requests were answered rightly, of them after another worker's end: [1-9]/,
    );
  });

  it("answer every request of the example, whenever one is killed", async (t) => {
    assert.match(
      await saidBy(t, "../../examples/supervised-workers.js"),
      /60 requests were answered correctly by \d+ workers/,
    );
  });
});
