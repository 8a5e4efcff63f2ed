import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Deadline } from "../../../../src/base/deadline.js";
import { MessageCarrier } from "../../../../src/bridge/channels/message-carrier.js";
import { ChannelRead } from "../../../../src/bridge/link/channel-read.js";
import type { MachineLink } from "../../../../src/bridge/link/machine-link.js";
import type { ChannelWriter } from "../../../../src/channel/channel-writer.js";
import { until } from "../../../support/until.js";

describe("MessageCarrier", () => {
  it("does not blame the other machine for the time in which no slot is free here", async () => {
    const read = new ChannelRead(8, { ask: () => {}, end: () => {} });
    const link = { machine: "a", read: () => read } as unknown as MachineLink;
    let isCommitted = false;
    const slot = {
      array: { buffer: { device: { cpuVisible: true } }, layout: { byteOffset: 0 } },
      bytes: new Uint8Array(8),
      commit: () => {
        isCommitted = true;
      },
      [Symbol.dispose]: () => {},
    };
    let giveSlot: ((given: typeof slot) => void) | undefined;
    const loan = () =>
      new Promise<typeof slot>((resolve) => {
        giveSlot = resolve;
      });
    let progress = 0;
    const carrier = new MessageCarrier(
      { name: "frames", link, channel: 1, slotBytes: 8, metaBytesMax: 0 },
      {
        deadline: new Deadline("carry", {}, 60_000),
        keepsNumbers: false,
        onProgress: () => {
          progress += 1;
        },
      },
    );
    const carried = carrier.carry({ loan } as unknown as ChannelWriter);
    const facts = { read: 1, sequence: 0, byteLength: 8, export: undefined, shape: undefined };
    const message = {
      kind: "message",
      ...facts,
      meta: new Uint8Array(),
      metaIsJson: false,
    } as const;
    read.arrive({ message, bytes: new Uint8Array(8) });
    await until("a slot is wanted", () => giveSlot !== undefined);
    const before = progress;
    giveSlot?.(slot);
    await until("the message is written", () => isCommitted);
    assert.equal(progress, before + 1);
    read.end({ gone: false, sequence: 1 });
    assert.equal(await carried, false);
  });
});
