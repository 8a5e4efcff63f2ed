import assert from "node:assert/strict";
import { constants } from "node:os";
import { describe, it } from "node:test";
import { systemError } from "../../../src/os/system-error.js";

describe("systemError", () => {
  it("uses the manual's name for a number with two names", () => {
    assert.equal(constants.errno.EAGAIN, constants.errno.EWOULDBLOCK);
    assert.equal(systemError("wait", "connect", constants.errno.EWOULDBLOCK).errnoName, "EAGAIN");
  });

  it("has a code and a remedy for a file that may not grow and a socket of another type", () => {
    const big = systemError("make x", "ftruncate", constants.errno.EFBIG);
    assert.deepEqual([big.code, /ulimit -f/.test(big.remedy)], ["LIMIT_EXCEEDED", true]);
    const other = systemError("reach x", "connect", constants.errno.EPROTOTYPE);
    assert.deepEqual([other.code, /Another program/.test(other.remedy)], ["WRONG_KIND", true]);
  });
});
