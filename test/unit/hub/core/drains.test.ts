/** Requests to be told when nobody else holds an object, and the marks of legacy memory. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { CoreRig } from "../../../support/core-rig.js";
import { legacyArray } from "../../../support/messages.js";
import { names, published, READ_NOW } from "./core-requests.js";

/** Two sessions: the first owns an object in legacy memory, the second has it open. */
function lent() {
  const rig = new CoreRig();
  rig.greeted(1);
  rig.greeted(2);
  const { object, lease, fds } = published(rig, 1, "lent", "held", legacyArray);
  const opened = rig.result(2, "open", { name: "lent", ...READ_NOW }).lease as number;
  return { rig, object, lease, opened, mark: fds[0] as number };
}

describe("drain", () => {
  it("takes the name away at once, and is answered after the last other lease", () => {
    const { rig, object, opened } = lent();
    const asked = rig.send(1, "drain", { object });
    assert.deepEqual([names(rig, 2), rig.codes(1, asked)], [[], []]);
    assert.equal(rig.failure(2, "open", { name: "lent", ...READ_NOW }), "NOT_FOUND");
    rig.result(2, "release", { lease: opened });
    assert.deepEqual(rig.codes(1, asked), ["ok"]);
    assert.deepEqual(rig.ended, [], "the memory is still there");
  });

  it("is answered at once if nobody else has a lease", () => {
    const { rig, object, opened } = lent();
    rig.result(2, "release", { lease: opened });
    assert.deepEqual(rig.result(1, "drain", { object }), {});
  });

  it("is answered when the process of the last reader ends", () => {
    const { rig, object } = lent();
    const asked = rig.send(1, "drain", { object });
    rig.core.processEnded(2);
    assert.deepEqual(rig.codes(1, asked), ["ok"]);
  });

  it("is refused for another session, and for an object that is not there", () => {
    const { rig, object } = lent();
    assert.equal(rig.failure(2, "drain", { object }), "NOT_OWNER");
    assert.equal(rig.failure(1, "drain", { object: object + 1000 }), "NOT_FOUND");
    assert.deepEqual(names(rig, 1), ["lent"]);
  });

  it("ends with ABORTED if the owner asks again or gives its lease back", () => {
    const { rig, object, lease } = lent();
    const first = rig.send(1, "drain", { object });
    const second = rig.send(1, "drain", { object });
    assert.deepEqual([rig.codes(1, first), rig.codes(1, second)], [["ABORTED"], []]);
    rig.result(1, "release", { lease });
    assert.deepEqual(rig.codes(1, second), ["ABORTED"]);
  });

  it("gets no answer after bye", () => {
    const { rig, object, opened } = lent();
    const asked = rig.send(1, "drain", { object });
    rig.send(1, "bye", {});
    rig.result(2, "release", { lease: opened });
    assert.deepEqual(rig.codes(1, asked), []);
  });
});

describe("the mark of legacy memory", () => {
  it("is ended, and the name taken away, when the owner gives its lease back", () => {
    const { rig, lease, mark } = lent();
    rig.result(1, "release", { lease });
    assert.deepEqual([rig.ended, names(rig, 2)], [[{ fd: mark, byteOffset: 0 }], []]);
  });

  it("goes to its openers as another descriptor, for reading, whatever their access", () => {
    const { rig, mark } = lent();
    const { fds } = rig.ask(2, "open", { name: "lent", access: "read-write", wait: false });
    assert.equal(fds.length, 1);
    assert.ok(!fds.includes(mark));
  });

  it("comes with memory that cannot be pinned, nor shared with other users", () => {
    const { rig } = lent();
    const request = { name: "refused", lifetime: "held", descriptor: legacyArray } as const;
    const refused = (changes: object) =>
      assert.equal(rig.failure(1, "create", { ...request, ...changes }, [rig.fd()]), "UNSUPPORTED");
    refused({ lifetime: "pinned" });
    refused({ sharing: { with: "group", access: "read" } });
    refused({ sharing: { with: "all", access: "read-write" } });
    assert.deepEqual(names(rig, 1), ["lent"]);
  });
});
