import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { it } from "node:test";
import { withTemporarySocket } from "../../../src/cli/temporary-folder.js";

/** Makes files in a folder until it is gone, or for a third of a second. */
const WRITES = `
  const { writeFileSync } = require("node:fs");
  const endMs = performance.now() + 333;
  for (let n = 0; performance.now() < endMs; n += 1) {
    try {
      writeFileSync(process.argv[1] + "/" + n, "");
    } catch {
      break;
    }
    if (n === 0) process.stdout.write("begun");
  }
`;

it("a temporary folder is removed although a process still writes there", async () => {
  let folder = "";
  const ended = await withTemporarySocket("cuda-ipc-test-", async (socket) => {
    folder = dirname(socket);
    assert.equal(statSync(folder).mode & 0o777, 0o700);
    const writer = spawn(process.execPath, ["-e", WRITES, folder], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    const ended = once(writer, "exit");
    await once(writer.stdout, "data");
    return { ended };
  });
  assert.equal(existsSync(folder), false);
  assert.deepEqual(await ended.ended, [0, null]);
});
