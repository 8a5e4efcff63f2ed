/**
 * A program in a control group (cgroup) with a limit of memory gets OUT_OF_MEMORY for more than is
 * left there. The kernel would kill it instead, when it touches the memory.
 */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { truncateSync, writeFileSync } from "node:fs";
import { text } from "node:stream/consumers";
import { describe, it, type TestContext } from "node:test";
import { Actor } from "../../support/actor.js";
import { MemoryCgroup } from "../../support/matrix/memory-cgroup.js";
import { TestHub } from "../../support/test-hub.js";
import { LAUNCH } from "../cli/cli-rig.js";

const MiB = 1024 * 1024;
const LIMIT_BYTES = 384 * MiB;
const CREATES = new URL("actors/creates-in-group.js", import.meta.url);

function limitedGroup(t: TestContext): MemoryCgroup | undefined {
  const group = MemoryCgroup.tryCreate(LIMIT_BYTES);
  if (group === undefined) t.skip("no memory cgroup can be made here");
  return group;
}

describe("a program in a control group that has a limit of memory", () => {
  it("creates what fits, and gets OUT_OF_MEMORY for more", async (t) => {
    await using group = limitedGroup(t);
    if (group === undefined) return;
    await using hub = await TestHub.start();
    await using actor = new Actor(CREATES, { args: [hub.socket], within: group.within() });
    for (const [line, wanted] of [
      ["1024 false", "OUT_OF_MEMORY"],
      ["1024 true", "OUT_OF_MEMORY"],
      ["128 true", "OK"],
      // What it has preallocated counts.
      ["320 true", "OUT_OF_MEMORY"],
      ["320 false", "OUT_OF_MEMORY"],
      ["16 true", "OK"],
    ] as const) {
      actor.goOn(line);
      assert.equal(await actor.says(), wanted, line);
    }
  });

  for (const option of ["--preallocate", "--replace"]) {
    it(`puts a file that fits, and none that does not: put ${option}`, async (t) => {
      await using group = limitedGroup(t);
      if (group === undefined) return;
      await using hub = await TestHub.start();
      await using client = await hub.connect();
      async function put(name: string, mebibytes: number): Promise<[number | null, string]> {
        const file = hub.folder.file(`${name}.bin`);
        writeFileSync(file, "");
        truncateSync(file, mebibytes * MiB);
        const program = [process.execPath, LAUNCH, "put", option, name, file];
        const [command = "", ...args] = [...(group?.within() ?? []), ...program];
        const env = { ...process.env, CUDA_IPC_SOCKET: hub.socket, CUDA_IPC_DEVICE: "host" };
        const child = spawn(command, args, { env, stdio: ["ignore", "ignore", "pipe"] });
        const [said, [code]] = await Promise.all([text(child.stderr), once(child, "close")]);
        return [code, said];
      }
      const [code, said] = await put("large", 1024);
      assert.equal(code, 1, said);
      assert.match(said, /OUT_OF_MEMORY/);
      assert.deepEqual(await client.list({ all: true }), []);
      assert.deepEqual((await put("small", 32))[0], 0);
    });
  }
});
