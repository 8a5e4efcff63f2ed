import assert from "node:assert/strict";
import { constants } from "node:os";
import { describe, it } from "node:test";
import { inspect } from "node:util";
import { errorCodes, isErrorCode } from "../../../src/base/error-codes.js";
import { CudaIpcError, hasCode } from "../../../src/base/errors.js";
import { fromNodeError, systemError } from "../../../src/os/system-error.js";

describe("error codes", () => {
  it("have a meaning and a remedy, each a sentence", () => {
    for (const [code, { meaning, remedy }] of Object.entries(errorCodes)) {
      assert.match(code, /^[A-Z]+(_[A-Z]+)*$/);
      assert.match(meaning, /\.$/, code);
      assert.ok(remedy.length > 5, code);
    }
  });

  it("are a closed set", () => {
    assert.ok(isErrorCode("CLOSED"));
    for (const text of ["closed", "", "constructor", "toString", "__proto__"])
      assert.equal(isErrorCode(text), false);
  });

  it("give an error its remedy and say whether a retry helps", () => {
    const error = new CudaIpcError("TOO_MANY_FDS", "Cannot open a socket: full", { cause: "why" });
    assert.deepEqual(
      [error.remedy, error.retryable, error.cause],
      [errorCodes.TOO_MANY_FDS.remedy, true, "why"],
    );
    assert.ok(hasCode(error, "TOO_MANY_FDS"));
    assert.equal(hasCode(new Error("TOO_MANY_FDS"), "TOO_MANY_FDS"), false);
  });
});

describe("an uncaught error", () => {
  const error = new CudaIpcError(
    "NAME_TAKEN",
    'Cannot create "frame": another object has this name',
  );

  it("has a cause only if there is one", () => {
    for (const error of [
      new CudaIpcError("NAME_TAKEN", "x"),
      new CudaIpcError("NAME_TAKEN", "x", { cause: undefined }),
    ])
      assert.equal("cause" in error, false);
    assert.equal(new CudaIpcError("NAME_TAKEN", "x", { cause: 5 }).cause, 5);
  });

  it("shows code and remedy once when Node prints it", () => {
    const printed = inspect(error);
    assert.match(
      printed,
      /^CudaIpcError: Cannot create "frame": another object has this name\n {4}at /,
    );
    assert.equal(printed.split(errorCodes.NAME_TAKEN.remedy).length, 2);
    assert.equal(printed.split("NAME_TAKEN").length, 2);
    assert.match(error.stack ?? "", /^CudaIpcError: Cannot create/);
    const failed = systemError("map memory", "mmap", constants.errno.ENOMEM);
    assert.match(inspect(failed), /^SystemError: [\s\S]*remedy: 'Free memory or ask for less\.'/);
  });
});

describe("systemError", () => {
  const { errno } = constants;
  const codes = [
    [errno.EMFILE, "TOO_MANY_FDS"],
    [errno.ENOSPC, "DISK_FULL"],
    [errno.ENOMEM, "OUT_OF_MEMORY"],
    [errno.EACCES, "PERMISSION_DENIED"],
    [errno.EPIPE, "PEER_GONE"],
    [errno.EINVAL, "SYSTEM_ERROR"],
  ] as const;
  for (const [number, code] of codes) {
    it(`is ${code} for errno ${number}, and keeps the system's own name`, () => {
      const error = systemError("do it", "the_call", number);
      assert.deepEqual([error.code, error.errno, error.call], [code, number, "the_call"]);
      assert.equal(errno[error.errnoName as keyof typeof errno], number);
      assert.equal(error.message, `Cannot do it: the_call failed with ${error.errnoName}`);
    });
  }

  it("names an unknown number", () => {
    assert.equal(systemError("do it", "call", 9999).errnoName, "errno 9999");
  });
});

describe("fromNodeError", () => {
  it("keeps the error as its cause, and returns other errors unchanged", () => {
    const thrown = Object.assign(new Error("ENOSPC: no space"), {
      errno: -constants.errno.ENOSPC,
      syscall: "write",
    });
    const error = fromNodeError("write a file", thrown);
    assert.ok(hasCode(error, "DISK_FULL"));
    assert.equal(error.cause, thrown);
    for (const other of [new Error("no"), "text", undefined])
      assert.equal(fromNodeError("write a file", other), other);
  });
});
