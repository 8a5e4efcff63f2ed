import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { CudaIpcError, hasCode } from "../../../../src/base/errors.js";
import { defaults } from "../../../../src/base/limits.js";
import { PullSession } from "../../../../src/bridge/local/pull-session.js";
import type { FetchTable, PullOptions } from "../../../../src/bridge/transfer/fetch-table.js";
import type { PeerClient } from "../../../../src/peer/peer-listener.js";
import { until } from "../../../support/until.js";

const done = { state: "done", machine: null, byteLength: 1 } as const;
const fetching = { state: "fetching", machine: "two", doneBytes: 0, totalBytes: 9 } as const;

/** A process that reads so many answers, and then no more. */
function session(reads: number, pull: (options: PullOptions) => Promise<typeof done>) {
  const refusals: unknown[] = [];
  const client = {
    send: () => {
      reads -= 1;
      if (reads < 0) throw new CudaIpcError("LIMIT_EXCEEDED", "Cannot send a message: full");
    },
    refuse: (error: unknown) => refusals.push(error),
  } as unknown as PeerClient;
  const fetches = { pull: (_: string, options: PullOptions) => pull(options) };
  const request = { v: 1, op: "pull", name: "x", wait: true } as const;
  return { refusals, session: new PullSession(client, fetches as unknown as FetchTable, request) };
}

describe("PullSession", () => {
  it("refuses a process that has not read its answers when the pull is done", async () => {
    const { refusals } = session(0, async () => done);
    await until("it is refused", () => refusals.length > 0);
    assert.ok(hasCode(refusals[0], "LIMIT_EXCEEDED"));
  });

  it("refuses a process that has not read its answers when a timer sends the next", async () => {
    let tell = () => {};
    const { refusals, session: asked } = session(1, ({ onState }) => {
      tell = () => onState(fetching);
      tell();
      return new Promise(() => {});
    });
    asked.next();
    tell();
    await until("it is refused", () => refusals.length > 0);
    assert.equal(refusals.length, 1);
    asked.end();
  });

  it("repeats its last answer to a process that asks while nothing happens", (t) => {
    t.mock.timers.enable({ apis: ["setTimeout"] });
    const sent: unknown[] = [];
    const client = { send: (message: unknown) => sent.push(message) } as unknown as PeerClient;
    const pull = (_: string, { onState }: PullOptions) => {
      onState(fetching);
      return new Promise(() => {});
    };
    const request = { v: 1, op: "pull", name: "x", wait: true } as const;
    const session = new PullSession(client, { pull } as unknown as FetchTable, request);
    t.mock.timers.tick(60_000);
    assert.equal(sent.length, 1, "it is not asked");
    session.next();
    t.mock.timers.tick(defaults.bridgeSilenceMs / 2);
    assert.deepEqual(sent, Array(2).fill({ v: 1, ok: true, ...fetching }));
    session.next();
    session.end();
    t.mock.timers.tick(60_000);
    assert.equal(sent.length, 2, "it waits no longer");
  });
});
