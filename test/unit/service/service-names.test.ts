/** Which names are offers of which worker. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { CudaIpcError } from "../../../src/base/errors.js";
import {
  checkServiceName,
  linkNameOf,
  newWorkerId,
  offersAmong,
  ofService,
  replyName,
  requestName,
} from "../../../src/service/service-names.js";
import { checkName } from "../../../src/wire/names.js";

describe("offersAmong", () => {
  it("finds the newest unclaimed offer of each worker", () => {
    const [a, b] = [newWorkerId(), newWorkerId()];
    const taken = replyName("resize", a, 0);
    const names = [
      taken,
      requestName(taken),
      replyName("resize", a, 9),
      replyName("resize", a, 10),
      replyName("resize", b, 0),
    ];
    assert.deepEqual(offersAmong("resize", names), [
      { worker: a, name: replyName("resize", a, 10) },
      { worker: b, name: replyName("resize", b, 0) },
    ]);
  });

  it("ignores names of other services, and similar names", () => {
    const names = [
      "resize",
      "resize:w",
      "resize:wx",
      "resize:wx:",
      "resize:wx:1:reqs",
      "resize:wX:1",
      "resize2:wx:1",
    ];
    assert.deepEqual(
      offersAmong("resize", [...names, replyName("resize:w", "x", 1), "resize:wx:1:req"]),
      [],
    );
  });
});

describe("the names of a service", () => {
  it("are valid object names, even for the longest service name", () => {
    const name = checkServiceName("n".repeat(191));
    checkName(requestName(replyName(name, newWorkerId(), Number.MAX_SAFE_INTEGER)));
    assert.throws(() => checkServiceName("n".repeat(192)), { code: "INVALID_NAME" });
  });

  it("are unique to one worker", () => {
    assert.equal(new Set(Array.from({ length: 1000 }, newWorkerId)).size, 1000);
  });
});

describe("linkNameOf", () => {
  it("takes the names of a link apart", () => {
    const reply = replyName("a:w", "x9", 12);
    const link = { service: "a:w", worker: "x9", reply };
    assert.deepEqual(linkNameOf(reply), { ...link, isRequests: false });
    assert.deepEqual(linkNameOf(requestName(reply)), { ...link, isRequests: true });
  });

  it("knows no other names", () => {
    for (const name of ["frames", ":wx:1", "a:wx", "a:wx:1:reqs", "a:wX:1", "a:w:1"])
      assert.equal(linkNameOf(name), undefined, name);
  });
});

describe("ofService", () => {
  it("replaces the names of a service's channels by service and worker, also in the stack", () => {
    const link = replyName("a.b", "1x", 7);
    const message = `Cannot write to "${link}": no reader of "${requestName(link)}", "axb:w1:2"`;
    const error = ofService(new CudaIpcError("TIMEOUT", message), "a.b") as CudaIpcError;
    const own = 'Cannot write to "a.b" (worker w1x): no reader of "a.b" (worker w1x), "axb:w1:2"';
    assert.equal(error.message, own);
    assert.ok(error.stack?.includes(own));
  });

  it("leaves other errors alone", () => {
    const other = new TypeError('"a:w1:2"');
    assert.equal(ofService(other, "a"), other);
    assert.equal(other.message, '"a:w1:2"');
  });
});
