/**
 * Runs the tests of the Python package (python/tests), with Node on the other side. Other files here
 * run those of services, of frameworks and of GPU memory.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { noPytest, runPytest } from "../../support/run-pytest.js";
import { FRAMEWORKS, SERVICES } from "./python-parts.js";

test("the tests of the Python package pass", { skip: noPytest, timeout: 580_000 }, async () => {
  const others = [...SERVICES, ...FRAMEWORKS].map((path) => `--ignore=${path}`);
  assert.match(await runPytest(["python", ...others]), /\d+ passed/);
});
