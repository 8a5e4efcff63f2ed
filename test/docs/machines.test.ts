import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { it } from "node:test";
import { MACHINES_VERSION } from "../../src/wire/machines-version.js";

it("docs/machines.md names the version that bridges speak", () => {
  const text = readFileSync("docs/machines.md", "utf8");
  const [, version] = /^- Bridges speak version (\d+) of their protocol/m.exec(text) ?? [];
  assert.equal(Number(version), MACHINES_VERSION);
});
