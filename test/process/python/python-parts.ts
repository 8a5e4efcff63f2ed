/** The tests of the Python package that run in a process of their own, because all take minutes. */
export const SERVICES = ["services", "groups", "connecting", "bad_input"].map(
  (name) => `python/tests/test_${name}.py`,
);
