/** What a bundle of the package says where its code comes from. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";

const LAUNCH = fileURLToPath(new URL("../../../src/cli/launch.cjs", import.meta.url));

describe("an uncaught error of the bundled command line", () => {
  it("points into the sources if Node reads source maps", () => {
    const preload = `Object.defineProperty(process, "stdout", { get() { throw new Error("no output"); } });`;
    const args = ["--enable-source-maps", `--import=data:text/javascript,${encodeURIComponent(preload)}`, LAUNCH, "ls"];
    const { status, stderr } = spawnSync(process.execPath, args, { encoding: "utf8" });
    assert.equal(status, 1);
    assert.match(stderr, /no output[^]*\bsrc\/cli\/main\.ts:\d+/);
  });
});
