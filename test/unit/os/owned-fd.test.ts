import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { closeSync, fstatSync, openSync } from "node:fs";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { hasCode } from "../../../src/base/errors.js";
import { OwnedFd, openFdCount } from "../../../src/os/owned-fd.js";
import { checkLeaks } from "../../support/leak-check.js";

const FORGETS = fileURLToPath(new URL("./actors/forgets-fd.js", import.meta.url));

function isOpen(fd: number): boolean {
  try {
    fstatSync(fd);
    return true;
  } catch {
    return false;
  }
}

describe("OwnedFd", () => {
  checkLeaks();

  it("closes its descriptor once, and never a reused number", () => {
    const fd = new OwnedFd(openSync("/dev/null", "r"));
    const { number } = fd;
    fd.close();
    const other = openSync("/dev/zero", "r");
    assert.equal(other, number, "the kernel gives the lowest free number");
    fd.close();
    assert.ok(isOpen(other));
    closeSync(other);
  });

  it("counts the open descriptors", () => {
    const before = openFdCount();
    const fd = new OwnedFd(openSync("/dev/null", "r"));
    const twin = fd.duplicate();
    assert.equal(openFdCount(), before + 2);
    fd.close();
    fd.close();
    twin.close();
    assert.equal(openFdCount(), before);
  });

  it("throws CLOSED after close()", () => {
    const fd = new OwnedFd(openSync("/dev/null", "r"));
    fd.close();
    assert.ok(fd.closed);
    assert.throws(
      () => fd.number,
      (error) => hasCode(error, "CLOSED"),
    );
    assert.throws(
      () => fd.duplicate(),
      (error) => hasCode(error, "CLOSED"),
    );
  });

  it("hands over an open descriptor by take()", () => {
    const fd = new OwnedFd(openSync("/dev/null", "r"));
    const number = fd.take();
    fd.close();
    assert.ok(isOpen(number));
    closeSync(number);
  });

  it("refuses an invalid number, and counts nothing", () => {
    const before = openFdCount();
    for (const value of [-1, 1.5, Number.NaN]) assert.throws(() => new OwnedFd(value), RangeError);
    assert.equal(openFdCount(), before);
  });

  it("throws a system error if the descriptor was closed elsewhere", () => {
    const fd = new OwnedFd(openSync("/dev/null", "r"));
    closeSync(fd.number);
    assert.throws(
      () => fd.close(),
      (error) => hasCode(error, "SYSTEM_ERROR") && /EBADF/.test(error.message),
    );
  });

  it("reports and closes a forgotten descriptor", () => {
    const { stdout, stderr } = spawnSync(process.execPath, ["--expose-gc", FORGETS], {
      encoding: "utf8",
    });
    assert.match(stderr, /CudaIpcLeak: File descriptor \d+ was never closed/);
    assert.equal(stdout.trim(), JSON.stringify({ open: false, count: 0 }));
  });
});
