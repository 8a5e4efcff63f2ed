/** A hub that dies before it says a word: the error of `connect` has its last line. */
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { describe, it } from "node:test";
import { connect } from "../../../src/client/connect.js";
import { checkLeaks } from "../../support/leak-check.js";
import { TestFolder } from "../../support/test-folder.js";

async function refusal(socket: string, node: string): Promise<string> {
  const { execPath } = process;
  process.execPath = node;
  try {
    await connect({ socket });
  } catch (error) {
    return (error as Error).message;
  } finally {
    process.execPath = execPath;
  }
  throw new Error("it has connected");
}

describe("a hub that dies at once", () => {
  checkLeaks();

  it("is reported with the last error of its log", async () => {
    using folder = new TestFolder();
    const node = folder.file("node");
    const log = `${folder.socket}.log`;
    writeFileSync(log, "Error [OLD]: of an earlier hub\n", { mode: 0o600 });
    const says = async (script: string) => {
      writeFileSync(node, `#!/bin/sh\n${script}\n`, { mode: 0o700 });
      return refusal(folder.socket, node);
    };
    const begin = `Cannot start a hub at ${folder.socket}: it ended at once`;
    const throws = 'echo "Error [X]: no valibot" >&2; echo "    at main.js" >&2; exit 1';
    assert.equal(await says(throws), `${begin}: Error [X]: no valibot; see ${log}`);
    assert.equal(await says("echo killed >&2; exit 1"), `${begin}: killed; see ${log}`);
    assert.equal(await says("exit 1"), `${begin}; see ${log}`);
  });
});
