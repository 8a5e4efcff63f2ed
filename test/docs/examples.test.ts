/** Runs the examples of the documents as they stand there, in their own processes, on the host. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { connect } from "../../src/index.js";
import { type CodeBlock, codeBlocks, promisedLines, runnable, typeFaults } from "./code-blocks.js";

const RANKS = "docs/two-terminals.md";
const PAGES = ["docs/guide.md", "docs/building-blocks.md", "docs/coming-from.md", "docs/watch.md"];
const sources = fileURLToPath(new URL("../../src/", import.meta.url));
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

  const runBlock = async (block: CodeBlock, more: NodeJS.ProcessEnv = {}): Promise<string> => {
    const rank = more.PMI_RANK ?? "";
    const file = join(folder, `${block.place.replaceAll(/\W/g, "-")}${rank}.mjs`);
    writeFileSync(file, runnable(block, sources));
    const env = { ...process.env, CUDA_IPC_SOCKET: socket, CUDA_IPC_DEVICE: "host", ...more };
    const { stdout } = await run(process.execPath, [file], { env, timeout: 60_000 });
    return stdout;
  };

  it("README: the consumers in TypeScript and in JavaScript read what the producer published", async () => {
    const [producer, ...consumers] = codeBlocks("README.md");
    assert.ok(producer !== undefined);
    assert.equal(consumers.length, 2);
    await runBlock(producer);
    for (const consumer of consumers)
      assert.match(await runBlock(consumer), /\[ 1080, 1920, 3 \] 0\.5 5760/);
  });

  for (const block of PAGES.flatMap(codeBlocks).filter(({ needsGpu }) => !needsGpu)) {
    it(`${block.place} runs`, async () => {
      const said = (await runBlock(block)).split("\n");
      for (const line of promisedLines(block))
        assert.ok(said.includes(line), `"${line}" is not in ${said.join("\n")}`);
    });
  }

  it(`${RANKS}: the example runs as three ranks`, async () => {
    const [block, ...others] = codeBlocks(RANKS);
    assert.ok(block !== undefined && others.length === 0);
    const ranks = [0, 1, 2].map((rank) =>
      runBlock(block, { PMI_RANK: String(rank), PMI_SIZE: "3" }),
    );
    for (const [rank, said] of (await Promise.all(ranks)).entries())
      assert.equal(said, `rank ${rank} of 3 sees ${(rank + 1) % 3}\n`);
  });

  it("all of them pass the compiler, those for a GPU too", () => {
    assert.deepEqual(typeFaults(["README.md", RANKS, ...PAGES].flatMap(codeBlocks)), []);
  });

  it("the test finds examples, and fails for one that throws or has a type error", async () => {
    const blocks = PAGES.flatMap(codeBlocks);
    assert.ok(blocks.filter(({ needsGpu }) => !needsGpu).length >= 10);
    assert.ok(blocks.some(({ needsGpu }) => needsGpu));
    assert.ok(blocks.flatMap(promisedLines).length >= 8);
    const nowhere = (typescript: string): CodeBlock => ({
      place: "nowhere.md:1",
      typescript,
      needsGpu: false,
    });
    await assert.rejects(runBlock(nowhere('throw new Error("no");')));
    const wrong = 'import { Device } from "cuda-ipc";\nDevice.open(1);\n';
    assert.match(
      typeFaults([nowhere(wrong)]).join(),
      /^nowhere\.md:1: .*Argument of type 'number'/,
    );
  });
});
