/** Runs the tests of numpy, PyTorch, JAX, models and the documents' examples in Python. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { noPytest, runPytest } from "../../support/run-pytest.js";
import { FRAMEWORKS } from "./python-parts.js";

test("the tests of frameworks in Python pass", { skip: noPytest, timeout: 580_000 }, async () => {
  assert.match(await runPytest(FRAMEWORKS), /\d+ (passed|skipped)/);
});
