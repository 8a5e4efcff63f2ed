/** What README and the guide show is run as it stands there, in processes of its own, on the host device. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { connect } from "../../src/index.js";
import { type CodeBlock, codeBlocks, runnable } from "./code-blocks.js";

const packageFile = fileURLToPath(new URL("../../src/index.js", import.meta.url));
const run = promisify(execFile);

describe("examples in the documents", () => {
  let folder: string;
  let socket: string;

  before(() => {
    folder = mkdtempSync(join(tmpdir(), "cuda-ipc-docs-"));
    socket = join(folder, "hub.sock");
  });

  after(async () => {
    const hub = await connect({ socket, hubIdleMs: 100 });
    await hub.stop({ force: true });
    await hub.close();
    rmSync(folder, { recursive: true, force: true });
  });

  const runBlock = async (block: CodeBlock): Promise<string> => {
    const file = join(folder, `${block.place.replaceAll(/\W/g, "-")}.mjs`);
    writeFileSync(file, runnable(block, packageFile));
    const env = { ...process.env, CUDA_IPC_SOCKET: socket, CUDA_IPC_DEVICE: "host" };
    const { stdout } = await run(process.execPath, [file], { env, timeout: 60_000 });
    return stdout;
  };

  it("README: what the producer publishes the consumer reads", async () => {
    const [producer, consumer] = codeBlocks("README.md");
    assert.ok(producer !== undefined && consumer !== undefined);
    await runBlock(producer);
    assert.match(await runBlock(consumer), /\[ 1080, 1920, 3 \] 0\.5 5760/);
  });

  for (const block of codeBlocks("docs/guide.md")) {
    it(`${block.place} runs`, async () => {
      await runBlock(block);
    });
  }

  it("finds examples to run, and notices one that fails", async () => {
    assert.ok(codeBlocks("docs/guide.md").length >= 3);
    await assert.rejects(runBlock({ place: "nowhere.md:1", typescript: 'throw new Error("no");' }));
  });
});
