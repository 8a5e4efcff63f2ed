/** Runs the tests of services, groups and connecting in Python, with Node on the other side. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { noPytest, runPytest } from "../../support/run-pytest.js";
import { SERVICES } from "./python-parts.js";

test("the tests of services and groups in Python pass", {
  skip: noPytest,
  timeout: 580_000,
}, async () => {
  assert.match(await runPytest(SERVICES), /\d+ passed/);
});
