import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { interceptLibc } from "../../../src/ffi/intercept-libc.js";
import { checkLeaks } from "../../support/leak-check.js";
import { TestHub } from "../../support/test-hub.js";
import { soon, until } from "../../support/until.js";

const ETOOMANYREFS = 109;
const ARRAY = { dtype: "uint8", shape: [4] } as const;

describe("a client whose user has too many descriptors in flight", () => {
  checkLeaks();

  it("waits with what it shares until others have received theirs", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    let refusals = 0;
    const undo = interceptLibc((call) => {
      if (call !== "sendmsg") return undefined;
      refusals += 1;
      return ETOOMANYREFS;
    });
    let created: ReturnType<typeof hub.create>;
    try {
      created = hub.create("late", ARRAY);
      await until("it has tried again", () => refusals > 3);
    } finally {
      undo();
    }
    using array = await soon("it is created", created);
    assert.equal(array.name, "late");
  });

  it("is told whose they are once its time is up, and is served afterwards", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    const undo = interceptLibc((call) => (call === "sendmsg" ? ETOOMANYREFS : undefined));
    try {
      await assert.rejects(hub.create("late", { ...ARRAY, timeoutMs: 20 }), {
        code: "TIMEOUT",
        message: new RegExp(
          `user ${process.getuid?.()} has more file descriptors in flight than this process may ` +
            `open \\(ulimit -n\\): one of its processes .+; the hub is at ${testHub.socket}$`,
        ),
      });
    } finally {
      undo();
    }
    using array = await soon("it is served", hub.put("next", Uint8Array.of(1)));
    assert.equal(array.name, "next");
    // What was given up is given back.
    await until("the late one is gone", async () => (await hub.list()).length === 1);
  });
});
