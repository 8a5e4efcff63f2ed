/** The tests of the Python package in parts, each for a process of its own: all take minutes. */
const pathsOf = (names: readonly string[]) => names.map((name) => `python/tests/test_${name}.py`);

export const SERVICES = pathsOf(["services", "groups", "connecting", "bad_input"]);
export const FRAMEWORKS = pathsOf(["frameworks", "matrix", "weights", "docs"]);
