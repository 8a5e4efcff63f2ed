import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { describe, it } from "node:test";
import { groupIds, userIds, userName } from "../../../src/os/accounts.js";
import { TestFolder } from "../../support/test-folder.js";

const PASSWD =
  "root:x:0:0:root:/root:/bin/sh\nalice:x:1000:100::/home/alice:/bin/sh\nalice:x:2000:1::/:\n+::::::\nodd:x:-1:0\n\n77:x:78:0";

describe("account names", () => {
  it("are looked up in the file, where the first of two lines counts; numbers stand for themselves", () => {
    using folder = new TestFolder();
    const path = folder.file("passwd");
    writeFileSync(path, PASSWD);
    const lookup = userIds(path);
    assert.deepEqual(
      ["root", "alice", "nobody", "odd", "", 5, "5", "77", -1, 1.5, 2 ** 32 - 1, "4294967295"].map(
        lookup,
      ),
      [
        0,
        1000,
        undefined,
        undefined,
        undefined,
        5,
        5,
        78,
        undefined,
        undefined,
        undefined,
        undefined,
      ],
    );
    assert.equal(userName(1000, path), "alice");
    assert.equal(userName(3, path), undefined);
  });

  it("are unknown if the file is missing", () => {
    const lookup = groupIds("/nowhere/group");
    assert.deepEqual(
      [lookup("wheel"), lookup(44), userName(0, "/nowhere/passwd")],
      [undefined, 44, undefined],
    );
  });
});
