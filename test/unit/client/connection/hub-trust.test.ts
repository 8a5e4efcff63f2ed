import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { hasCode } from "../../../../src/base/errors.js";
import { checkHubUser, trustedUids } from "../../../../src/client/connection/hub-trust.js";
import { ownUid } from "../../../../src/os/runtime-folder.js";

describe("the trusted users of a hub", () => {
  const own = ownUid();

  it("are this user, root, and the uid of the option or else of CUDA_IPC_HUB_UID", () => {
    assert.deepEqual(trustedUids(undefined, {}), new Set([own, 0]));
    assert.deepEqual(trustedUids(undefined, { CUDA_IPC_HUB_UID: "" }), new Set([own, 0]));
    assert.deepEqual(trustedUids(undefined, { CUDA_IPC_HUB_UID: "77" }), new Set([own, 0, 77]));
    assert.deepEqual(trustedUids(78, { CUDA_IPC_HUB_UID: "77" }), new Set([own, 0, 78]));
    for (const text of ["alice", "-1", "1.5", "4294967295"]) {
      assert.throws(() => trustedUids(undefined, { CUDA_IPC_HUB_UID: text }), RangeError);
    }
  });

  it("are no others", () => {
    checkHubUser("/x", 77, new Set([0, 77]));
    assert.throws(
      () => checkHubUser("/x", 78, new Set([0, 77])),
      (error) =>
        hasCode(error, "UNTRUSTED_PEER") &&
        /runs as user 78, .+CUDA_IPC_HUB_UID/.test(error.message),
    );
  });
});
