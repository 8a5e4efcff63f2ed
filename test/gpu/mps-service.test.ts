/** A service of supervised workers under MPS: one is killed while its kernels run, which ends the contexts of all of them. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { saidIn } from "../docs/example-output.js";
import { startMps, whyNoMps } from "../support/mps-server.js";
import { TestFolder } from "../support/test-folder.js";
import { soon } from "../support/until.js";

const EXAMPLE = fileURLToPath(new URL("../../examples/supervised-workers.js", import.meta.url));
/** So many that kernels run nearly all the time. */
const ELEMENTS = 64 * 1024 * 1024;
const WORKERS = 3;

describe("supervised workers under MPS", { skip: whyNoMps() ?? false }, () => {
  it("all lose their context with the one that is killed, and the service answers every request with new ones", async (t) => {
    using mps = startMps();
    await using folder = new TestFolder();
    const args = [EXAMPLE, "--device", "cuda:0", "--elements", String(ELEMENTS), "--processes", String(WORKERS)];
    const env = { ...process.env, ...mps.env, CUDA_IPC_SOCKET: folder.socket };
    delete (env as NodeJS.ProcessEnv).NODE_TEST_CONTEXT;
    const example = spawn(process.execPath, args, { env, stdio: ["ignore", "pipe", "pipe"] });
    let output = "";
    for (const stream of [example.stdout, example.stderr]) {
      stream.setEncoding("utf8").on("data", (text: string) => {
        output += text;
      });
    }
    const [code] = await soon("the example ends", once(example, "close"));
    for (const line of saidIn(output)) t.diagnostic(line);
    assert.equal(code, 0, output);
    const lost = saidIn(output).filter((line) => /^worker: DEVICE_LOST: ends/.test(line));
    assert.equal(lost.length, WORKERS - 1, output);
    assert.match(output, /60 requests were answered rightly by \d+ workers, of them after another worker's end: [1-9]/);
  });
});
