import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Deadline } from "../../../../src/base/deadline.js";
import type { LinkTable } from "../../../../src/bridge/link/link-table.js";
import type { Directory } from "../../../../src/bridge/names/directory.js";
import { RemoteObject } from "../../../../src/bridge/transfer/remote-object.js";
import type { NameRecord } from "../../../../src/wire/machine-records.js";
import { until } from "../../../support/until.js";

const record = { name: "frames", machine: "a", object: 5 } as NameRecord;

/** An object whose machine answers when the test wants. */
function slow() {
  const stop = new AbortController();
  const ended: number[] = [];
  let asked = 0;
  let answer = (_: { channel: number }) => {};
  const parts = {
    links: { to: async () => ({ open: true }) } as unknown as LinkTable,
    directory: {
      machine: () => ({ record: { instance: "of a", ready: true } }),
      entry: () => ({ record }),
    } as unknown as Directory,
  };
  const remote = new RemoteObject<{ channel: number }>(record, parts, stop.signal, {
    verb: "carry",
    open: (_, deadline: Deadline) => {
      asked += 1;
      const answered = new Promise<{ channel: number }>((resolve) => {
        answer = resolve;
      });
      return deadline.race(answered, () => {});
    },
    end: async (_, { channel }) => {
      ended.push(channel);
    },
  });
  const isAsked = () => until("the machine is asked", () => asked > 0);
  return { remote, stop, ended, isAsked, answer: (channel: number) => answer({ channel }) };
}

describe("RemoteObject", () => {
  it("gives back what was opened after it was given up", async () => {
    const { remote, stop, ended, isAsked, answer } = slow();
    const opening = remote.open();
    opening.catch(() => {});
    await isAsked();
    stop.abort();
    await assert.rejects(opening, { code: "ABORTED" });
    remote.end();
    assert.deepEqual(ended, []);
    answer(7);
    await until("it is given back", () => ended.length > 0);
    assert.deepEqual(ended, [7]);
  });
});
