/** The leak check can fail: for each thing that it watches, a test leaks one. */
import assert from "node:assert/strict";
import { closeSync, openSync } from "node:fs";
import { describe, it } from "node:test";
import { Device } from "../../src/gpu/device.js";
import { DeviceBuffer } from "../../src/gpu/memory/device-buffer.js";
import { Mapping } from "../../src/os/mapping.js";
import { OwnedFd } from "../../src/os/owned-fd.js";
import { assertHeld, held } from "../support/leak-check.js";

describe("the leak check", () => {
  const leaks: Record<string, () => () => void> = {
    "a descriptor": () => {
      const fd = openSync("/dev/zero", "r");
      return () => closeSync(fd);
    },
    "an owned descriptor": () => {
      const fd = new OwnedFd(openSync("/dev/zero", "r"));
      return () => fd.close();
    },
    "a mapping": () => {
      const mapping = Mapping.anonymous(4096);
      return () => mapping.close();
    },
    "a buffer": () => {
      const device = Device.open("host");
      const buffer = DeviceBuffer.allocate(device, 10);
      return () => {
        buffer.close();
        device.close();
      };
    },
  };
  for (const [what, leak] of Object.entries(leaks)) {
    it(`finds ${what} that is left open, and nothing once it is closed`, async () => {
      leak()();
      const before = held();
      const close = leak();
      await assert.rejects(assertHeld(before, 0), /something was left over/);
      close();
      await assertHeld(before);
    });
  }

  it("finds an object that only the garbage collector has closed", async () => {
    const before = held();
    (() => new OwnedFd(openSync("/dev/zero", "r")))();
    const mapping = Mapping.anonymous(4096);
    // WHY a mapping: the check collects garbage while memory is left over.
    process.once("warning", () => mapping.close());
    await assert.rejects(assertHeld(before), /something was forgotten/);
  });
});
