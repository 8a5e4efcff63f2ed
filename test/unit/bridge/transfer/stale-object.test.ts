import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { CudaIpcError } from "../../../../src/base/errors.js";
import { openAnnounced } from "../../../../src/bridge/transfer/stale-object.js";

describe("openAnnounced()", () => {
  const failing = (code: "NOT_FOUND" | "OUT_OF_MEMORY") =>
    openAnnounced("copy it", () => Promise.reject(new CudaIpcError(code, "it is so")));

  it("throws STALE_HANDLE for a name that has ended or is being replaced", async () => {
    await assert.rejects(failing("NOT_FOUND"), { code: "STALE_HANDLE" });
  });

  it("passes on other errors, and what was opened", async () => {
    await assert.rejects(failing("OUT_OF_MEMORY"), { code: "OUT_OF_MEMORY" });
    assert.equal(await openAnnounced("copy it", () => Promise.resolve(5)), 5);
  });
});
