import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { lineAt, stateOf, storeValue } from "../../../src/base/timeline-line.js";
import { beginSeat, endSeat, endWriter, type WordsFile } from "../../../src/ring/channel-end.js";
import {
  control,
  PAGE_BYTES,
  page,
  readerStates,
  writerStates,
} from "../../../src/ring/channel-layout.js";

interface Words extends WordsFile {
  readonly small: Uint32Array;
  readonly large: BigInt64Array;
}

function words(byteLength: number): Words {
  const bytes = new Uint8Array(byteLength);
  return {
    small: new Uint32Array(bytes.buffer),
    large: new BigInt64Array(bytes.buffer),
    read: (byteOffset, into) => into.set(bytes.subarray(byteOffset, byteOffset + into.byteLength)),
    write: (byteOffset, from) => bytes.set(from, byteOffset),
  };
}

/** A writer of epoch 65 that has finished 7 positions. */
function written(state: number): Words {
  const file = words(8192);
  file.small[control.epoch / 4] = 65;
  file.small[control.state / 4] = state;
  storeValue(lineAt(file.large, control.ready + 64), 7n);
  return file;
}

const readyOf = (file: Words, line: number) =>
  stateOf(lineAt(file.large, control.ready + 64 * line));

describe("endWriter", () => {
  for (const next of ["awaited", "gone"] as const) {
    it(`ends the timeline of the writer's epoch, and then writes ${next}`, () => {
      const file = written(writerStates.open);
      assert.equal(endWriter(file, next), true);
      assert.equal(file.small[control.state / 4], writerStates[next]);
      assert.deepEqual(readyOf(file, 1), { value: 7n, ended: true });
      assert.deepEqual(readyOf(file, 0), { value: 0n, ended: false });
      assert.equal(endWriter(file, "gone"), true);
      assert.deepEqual(readyOf(file, 1), { value: 7n, ended: true });
      assert.equal(file.small[control.state / 4], writerStates.gone);
    });
  }

  it("leaves a channel that its writer closed, and marks only lost GPU work", () => {
    const file = written(writerStates.closed);
    assert.equal(endWriter(file, "awaited"), false);
    assert.equal(file.small[control.state / 4], writerStates.closed);
    assert.deepEqual(readyOf(file, 1), { value: 7n, ended: true });
  });

  it("closes a removed channel only if it waited for a writer", () => {
    const waiting = written(writerStates.awaited);
    assert.equal(endWriter(waiting, "removed"), true);
    assert.equal(waiting.small[control.state / 4], writerStates.closed);
    for (const state of [writerStates.none, writerStates.open, writerStates.gone]) {
      const file = written(state);
      assert.equal(endWriter(file, "removed"), true);
      assert.equal(file.small[control.state / 4], writerStates.gone);
    }
  });

  it("writes the state even if the writer died before it opened the channel, or wrote nonsense", () => {
    for (const state of [writerStates.none, 99]) {
      const file = written(state);
      assert.equal(endWriter(file, "gone"), true);
      assert.equal(file.small[control.state / 4], writerStates.gone);
    }
  });
});

describe("a seat", () => {
  it("is free after endSeat(), with the end of its reader's timeline", () => {
    const file = words(PAGE_BYTES);
    file.small[page.state / 4] = readerStates.attached;
    file.large[page.lease / 8] = 3n;
    storeValue(lineAt(file.large, page.done), 5n);
    endSeat(file);
    assert.deepEqual(
      [file.small[page.state / 4], file.large[page.lease / 8]],
      [readerStates.none, 0n],
    );
    assert.deepEqual(stateOf(lineAt(file.large, page.done)), { value: 5n, ended: true });
  });

  it("begins without anything of an earlier reader", () => {
    const file = words(PAGE_BYTES);
    file.large.fill(-1n);
    beginSeat(file, 2 ** 40);
    assert.equal(file.large[page.lease / 8], 2n ** 40n);
    assert.equal(file.small[page.state / 4], readerStates.none);
    for (const word of [page.released, page.gpuReleased, page.claims, page.received, page.missed]) {
      assert.equal(file.large[word / 8], 0n);
    }
    assert.equal(file.small[page.mode / 4], 0);
    // Its writer remembers the sleep for which it has rung.
    assert.equal(file.small[page.asleep / 4], 2 ** 32 - 1);
    assert.ok(stateOf(lineAt(file.large, page.done)).ended);
  });
});
