/** Of two sides that one process started, the error of the one that failed is printed. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { it } from "node:test";
import { fileURLToPath } from "node:url";

const PROGRAM = fileURLToPath(new URL("./actors/failing-pair.js", import.meta.url));

it("prints why a side failed, and not that the other side missed it", () => {
  const { status, stderr } = spawnSync(process.execPath, [PROGRAM, "--device", "host"], {
    encoding: "utf8",
    timeout: 60_000,
  });
  assert.equal(status, 1);
  assert.match(stderr, /VERIFICATION_FAILED.*1 element is wrong/);
  assert.doesNotMatch(stderr, /PEER_GONE/);
});
