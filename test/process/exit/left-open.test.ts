import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Actor } from "../../support/actor.js";
import { checkLeaks } from "../../support/leak-check.js";
import { TestHub } from "../../support/test-hub.js";
import { TestRuntime } from "../../support/test-runtime.js";

const LEAVES_OPEN = new URL("./actors/leaves-open.js", import.meta.url);
const MEMBER = new URL("../peer/actors/group-member.js", import.meta.url);

const alone = [
  "a watch of a descriptor",
  "a watch that was begun at the very end",
  "a watch of a process",
  "a bell that it has heard",
  "a bell that is silent again",
  "a bell for which it has given up waiting",
  "a bell for which it waits",
  "a connection",
  "what it shares",
  "what it opened",
  "a timeline that a stream waits for",
  "a pool",
  "an event that is recorded",
  "memory that grows",
];

for (const where of ["process", "thread"]) {
  describe(`a ${where} that ends by itself`, () => {
    checkLeaks();

    /**
     * Checks that leaving it open causes no error, although its watches become ready at the end.
     */
    async function endsWell(what: string, ...args: string[]): Promise<void> {
      await using actor = new Actor(LEAVES_OPEN, { args: [what, where, ...args] });
      assert.equal(await actor.says(), "stirred");
      assert.equal(await actor.exited(), 0, actor.complaint);
      assert.equal(withoutLeaks(actor.complaint), "");
    }

    for (const what of alone) {
      it(`may leave ${what} open`, async () => {
        using _runtime = new TestRuntime();
        await endsWell(what);
      });
    }

    it("may leave a group open of which another member dies", async () => {
      using runtime = new TestRuntime();
      const path = runtime.file("g.sock");
      await using other = new Actor(MEMBER, { args: [path, "1", "2", "told"] });
      await endsWell("a group", path, String(other.pid));
    });

    it("may leave an offer open to which a consumer connects", async () => {
      using runtime = new TestRuntime();
      await endsWell("an offer", runtime.file("o.sock"));
    });

    it("may leave a connection open to a hub that dies", async () => {
      await using hub = await TestHub.start();
      await endsWell("its connection to a hub", hub.socket, String(hub.pid));
    });
  });
}

/** Node prints each warning on a line, and after the first one how to trace warnings. */
function withoutLeaks(complaint: string): string {
  return complaint.replace(
    /^\(node:\d+\) CudaIpcLeak: .*\n(\(Use `node --trace-warnings .*\n)?/gm,
    "",
  );
}
