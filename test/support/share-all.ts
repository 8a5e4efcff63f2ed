/** Two actors share all kinds of objects. The creator is killed at the end. */
import assert from "node:assert/strict";
import type { Actor } from "./actor.js";

const CREATES = new URL("../process/containers/actors/creates-all.js", import.meta.url);
const OPENS = new URL("../process/containers/actors/opens-all.js", import.meta.url);

export async function shareAll(start: (program: URL) => Actor): Promise<void> {
  await using creator = start(CREATES);
  assert.equal(await creator.says(), "created", creator.complaint);
  await using opener = start(OPENS);
  assert.deepEqual(await opener.says(), {
    pooled: [999, "pool"],
    bundle: [7, 8, 9],
    metadata: { unit: "m" },
    pinned: [1, 2, 3],
    holders: 2,
  });
  creator.goOn();
  assert.equal(await opener.says(), "signalled");
  creator.kill("SIGKILL");
  await creator.exited();
  assert.equal(await opener.says(), "PEER_GONE");
  assert.deepEqual(await opener.says(), ["pinned"]);
}
