import assert from "node:assert/strict";
import { constants } from "node:os";
import { describe, it } from "node:test";
import { systemError } from "../../../src/os/system-error.js";

describe("systemError", () => {
  it("uses the manual's name for a number with two names", () => {
    assert.equal(constants.errno.EAGAIN, constants.errno.EWOULDBLOCK);
    assert.equal(systemError("wait", "connect", constants.errno.EWOULDBLOCK).errnoName, "EAGAIN");
  });
});
