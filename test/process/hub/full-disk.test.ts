import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { hasCode } from "../../../src/base/errors.js";
import { checkLeaks } from "../../support/leak-check.js";
import { skipUnlessRoot } from "../../support/other-user.js";
import { SmallDisk } from "../../support/small-disk.js";
import { TestHub } from "../../support/test-hub.js";
import { until } from "../../support/until.js";

const ARRAY = { dtype: "uint8", shape: [1] } as const;

describe("a hub on a disk that is full", { skip: skipUnlessRoot }, () => {
  checkLeaks();

  it("refuses new objects, and creates again once all are released, on a full disk", async (t) => {
    using disk = new SmallDisk("1m");
    if (disk.skip !== false) return t.skip(disk.skip);
    const hub = await TestHub.start({ folder: disk.folder });
    const client = await hub.connect();
    try {
      const arrays = [];
      for (let count = 0; count < 200; count += 1)
        arrays.push(await client.create(`frame-${count}`, ARRAY));
      disk.fill();
      await assert.rejects(
        async () => {
          for (let count = 0; count < 1000; count += 1)
            arrays.push(await client.create(`more-${count}`, ARRAY));
        },
        (error) => hasCode(error, "DISK_FULL"),
      );
      for (const array of arrays) array.close();
      await until("there is room for another name", async () => {
        try {
          arrays.push(await client.create(`again-${arrays.length}`, ARRAY));
          return true;
        } catch (error) {
          assert.ok(hasCode(error, "DISK_FULL"), String(error));
          return false;
        }
      });
      arrays.at(-1)?.close();
    } finally {
      await client.stop({ force: true });
      await hub.exited();
    }
  });
});
