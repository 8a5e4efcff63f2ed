import assert from "node:assert/strict";
import { constants } from "node:os";
import { describe, it } from "node:test";
import { systemError } from "../../../src/os/system-error.js";

describe("systemError", () => {
  it("has one name for a number with two, the one that callers look for", () => {
    assert.equal(constants.errno.EAGAIN, constants.errno.EWOULDBLOCK);
    assert.equal(systemError("wait", "connect", constants.errno.EWOULDBLOCK).errnoName, "EAGAIN");
  });
});
