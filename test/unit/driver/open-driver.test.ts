import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { openDriver } from "../../../src/driver/open-driver.js";

describe("openDriver", () => {
  it("gives each caller a driver of its own", () => {
    const first = openDriver("host");
    const second = openDriver("host");
    first.close();
    assert.throws(() => first.deviceCount(), { code: "CLOSED" });
    assert.equal(second.deviceCount(), 1);
    second.close();
  });
});
