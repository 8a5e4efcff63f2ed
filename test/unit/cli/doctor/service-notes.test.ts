import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { notesOnService } from "../../../../src/cli/doctor/system-checks.js";

describe("the doctor's notes on a hub in a service", () => {
  const keeper = { pid: 7, descriptors: 1, pending: 0 };

  it("say that a program's service takes the hub with it", () => {
    const { notes, toDo } = notesOnService(keeper, "web.service");
    assert.deepEqual(notes, ["it ends with web.service, which started it"]);
    assert.match(toDo ?? "", /deploy/);
  });

  it("are not made of a hub outside of services, or of one that is a service itself", () => {
    assert.deepEqual(notesOnService(keeper, undefined), {});
    assert.deepEqual(notesOnService(null, "cuda-ipc.service"), {});
  });
});
