import assert from "node:assert/strict";
import { it } from "node:test";
import { openDriver } from "../../../src/driver/open-driver.js";

it("openDriver returns the same driver each time", () => {
  const driver = openDriver("host");
  assert.equal(driver.kind, "host");
  assert.equal(openDriver("host"), driver);
});
