/** Whether the data of a message is ready, by the timelines of the writers that follow each other. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { lineAt, poison, storeValue } from "../../../src/base/timeline-line.js";
import { MessageReadiness } from "../../../src/channel/message-readiness.js";
import { SharedWords } from "../../../src/gpu/order/shared-words.js";
import { controlByteLength, PAGE_BYTES, READY_LINES } from "../../../src/ring/channel-layout.js";
import { checkLeaks } from "../../support/leak-check.js";
import { type RingMemory, RingRig } from "../../support/ring/ring-rig.js";

const SLOTS = { slots: 4, readersMax: 1, metaBytesMax: 0 };

describe("a message whose writer died before its data was ready", () => {
  checkLeaks();

  it("is lost, also after so many writers that another one uses its timeline", () => {
    const control = SharedWords.create(controlByteLength(SLOTS));
    const memory: RingMemory = {
      control: control.cpu.buffer,
      pages: [new SharedArrayBuffer(PAGE_BYTES)],
      data: new SharedArrayBuffer(SLOTS.slots * 64),
    };
    const rig = new RingRig(SLOTS, memory, "new");
    const reader = rig.attach();
    const readiness = new MessageReadiness(
      { label: "ring", control, words: rig.control },
      undefined,
    );
    const line = () => lineAt(control.cpu, rig.control.readyOffset(rig.control.epoch));
    rig.put({ readyAt: 1 });
    rig.put({ readyAt: 0 });
    const taken = reader.tryTake();
    assert.ok(taken);
    assert.equal(readiness.of(taken), "pending");
    for (let writers = 0; writers < READY_LINES; writers += 1) {
      poison(line());
      rig.endWriter();
      rig.succeed();
      storeValue(line(), BigInt(rig.control.published));
    }
    assert.equal(readiness.of(taken), "lost");
    readiness.close();
    control.release();
  });
});
