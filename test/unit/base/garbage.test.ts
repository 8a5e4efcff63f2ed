import { describe, it } from "node:test";
import { garbageWasFound, StallWatch } from "../../../src/base/garbage.js";
import { until } from "../../support/until.js";

/** Says whether it was collected. */
function dropped(): () => boolean {
  const weak = new WeakRef({});
  return () => weak.deref() === undefined;
}

describe("StallWatch", () => {
  it("collects while a wait stalls", async () => {
    let isStalled = false;
    let looks = 0;
    const watch = new StallWatch(() => {
      looks += 1;
      return isStalled ? 0 : looks;
    });
    garbageWasFound();
    const weak = dropped();
    watch.begin();
    await until("it has looked", () => looks > 2);
    isStalled = true;
    await until("it has collected", weak);
    watch.close();
  });
});
