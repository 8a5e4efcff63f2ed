import assert from "node:assert/strict";
import { describe, it, mock } from "node:test";
import type { LogFields } from "../../../src/base/log-events.js";
import { LimitedLog } from "../../../src/hub/hub-log.js";

class Lines {
  readonly messages: string[] = [];
  readonly fields: (LogFields | undefined)[] = [];
  readonly limited = new LimitedLog((_event, message, fields) => {
    this.messages.push(message);
    this.fields.push(fields);
  });
}

describe("LimitedLog", () => {
  it("writes the first lines of a kind, then one line for the rest of the interval", () => {
    mock.timers.enable({ apis: ["setTimeout"] });
    try {
      const { messages, fields, limited } = new Lines();
      const refuse = (pid: number) =>
        limited.log("client-refused", `refused process ${pid} of "frame-${pid}"`, { pid });
      for (let pid = 1; pid <= 1000; pid += 1) refuse(pid);
      assert.equal(messages.length, 5);
      mock.timers.tick(10_000);
      assert.deepEqual(messages.slice(5), [
        '995 more like this, the last of them: refused process 1000 of "frame-1000"',
      ]);
      assert.deepEqual(fields[5], { pid: 1000, count: 995 });
      refuse(7);
      mock.timers.tick(10_000);
      assert.equal(messages.length, 7, "the next interval starts again");
    } finally {
      mock.timers.reset();
    }
  });

  it("counts the lines of each user separately", () => {
    const { messages, limited } = new Lines();
    for (let count = 0; count < 100; count += 1)
      limited.log("client-refused", "Cannot serve user 12", { uid: 12 });
    limited.log("client-refused", "Cannot serve user 13", { uid: 13 });
    assert.equal(messages.at(-1), "Cannot serve user 13");
    limited.flush();
  });

  it("writes each line of level debug", () => {
    const { messages, limited } = new Lines();
    for (let lease = 0; lease < 100; lease += 1)
      limited.log("lease-granted", `lease ${lease}`, { lease });
    assert.equal(messages.length, 100);
    limited.flush();
    assert.equal(messages.length, 100);
  });

  it("stays small if there are many kinds of lines", () => {
    const { messages, limited } = new Lines();
    for (let count = 0; count < 100_000; count += 1)
      limited.log("client-refused", `kind ${"x".repeat(count % 1000)}`);
    assert.ok(messages.length <= 505, `${messages.length} lines`);
    limited.flush();
    assert.ok(messages.length <= 606, `${messages.length} lines`);
  });
});
