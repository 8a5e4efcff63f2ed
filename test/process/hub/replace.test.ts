import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { checkLeaks } from "../../support/leak-check.js";
import { TestHub } from "../../support/test-hub.js";

const layout = { dtype: "uint8", shape: [2] } as const;

describe("an object that replaces another one", () => {
  checkLeaks();

  it("takes the name when it is published, and holders keep the older object", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    await using other = await testHub.connect();
    using older = await hub.put("x", Uint8Array.of(1, 1));
    using held = await other.open("x");
    using newer = await hub.create("x", { ...layout, replace: true });
    await newer.write(Uint8Array.of(2, 2));
    using before = await other.open("x", { wait: false });
    assert.equal(before.object, older.object);
    await newer.publish();
    using after = await other.open("x", { wait: false, dtype: "uint8" });
    assert.deepEqual(await after.read(), Uint8Array.of(2, 2));
    assert.deepEqual(await held.read(), Uint8Array.of(1, 1));
    const names = (await hub.list()).map(({ name, object }) => [name, object]);
    assert.deepEqual(names, [["x", newer.object]]);
  });

  it("leaves the older object alone if it is not published", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    using older = await hub.put("x", Uint8Array.of(1));
    const newer = await hub.create("x", { ...layout, lifetime: "pinned", replace: true });
    newer.close();
    const { object } = await hub.inspect("x");
    assert.equal(object.object, older.object);
    assert.equal((await hub.status()).objects, 1);
  });

  it("gets a name that is free, and ends the waits for it", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    const opening = hub.open("x", { dtype: "uint8" });
    using _newer = await hub.put("x", Uint8Array.of(3), { replace: true });
    using opened = await opening;
    assert.deepEqual(await opened.read(), Uint8Array.of(3));
  });

  it("may meet others that replace the same one: the last to be published has the name", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    await using other = await testHub.connect();
    using _older = await hub.put("x", Uint8Array.of(0, 0));
    using first = await hub.create("x", { ...layout, replace: true });
    using second = await other.create("x", { ...layout, replace: true });
    await second.publish();
    await first.publish();
    assert.equal((await hub.inspect("x")).object.object, first.object);
  });

  it("must be of the same kind, unless any kind is allowed", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    const makers = {
      bundle: (replace: boolean | "any") => hub.createBundle("x", { w: layout }, { replace }),
      channel: (replace: boolean | "any") => hub.createChannel("x", { ...layout, replace }),
      timeline: (replace: boolean | "any") => hub.createTimeline("x", { replace }),
    };
    for (const [kind, make] of Object.entries(makers)) {
      using _array = await hub.put("x", Uint8Array.of(1));
      await assert.rejects(make(true), {
        code: "WRONG_KIND",
        message: new RegExp(
          `^Cannot replace "x": it is of kind array, the new object of kind ${kind}`,
        ),
      });
      using made = await make("any");
      if ("publish" in made) await made.publish();
      assert.equal((await hub.inspect("x")).object.descriptor.content.kind, kind);
    }
    using _first = await hub.createTimeline("x");
    using again = await hub.createTimeline("x", { replace: true });
    assert.equal(again.value, 0n);
    await assert.rejects(hub.put("x", Uint8Array.of(1), { replace: "yes" as "any" }), {
      name: "TypeError",
    });
  });

  it("makes the creator of the older one fail if that was not published yet", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    using slow = await hub.create("x", layout);
    using _newer = await hub.put("x", Uint8Array.of(1), { replace: true });
    await assert.rejects(slow.publish(), {
      code: "NAME_TAKEN",
      message: /^Cannot publish "x": an array of process \d+ \(.*\), number \d+, has this name/,
    });
    using removed = await hub.create("y", layout);
    await hub.remove("y");
    await assert.rejects(removed.publish(), {
      code: "NOT_FOUND",
      message: /^Cannot publish "y": its name was removed meanwhile by process \d+ \(.+\)$/,
    });
  });

  it("is named by the error for a name that is taken", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    using taken = await hub.put("x", Uint8Array.of(1));
    await assert.rejects(hub.create("x", layout), {
      code: "NAME_TAKEN",
      message: new RegExp(
        `^Cannot create "x": an array of process ${process.pid} \\(.+\\), ` +
          `number ${taken.object}, has this name. To take the name over, pass .replace.\\.$`,
      ),
    });
  });
});
