/** With --enable-source-maps, stacks point into the sources of the package. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { errorCodes } from "../../../src/base/error-codes.js";

const ROOT = fileURLToPath(new URL("../../../..", import.meta.url));
const DOOR = new URL("../../../src/index.js", import.meta.url);
const LAUNCH = fileURLToPath(new URL("../../../src/cli/launch.cjs", import.meta.url));
const DIST = join(ROOT, "dist");

const PROGRAM = `
import { connect } from ${JSON.stringify(DOOR.href)};
await connect({ socket: "/proc/none/hub.sock", start: false });
`;

describe("an uncaught error", () => {
  it("shows code and remedy once, and where in the sources it was thrown", () => {
    const args = ["--enable-source-maps", "--input-type=module", "--eval", PROGRAM];
    const { stderr, status } = spawnSync(process.execPath, args, {
      encoding: "utf8",
      timeout: 30_000,
    });
    assert.equal(status, 1);
    assert.match(
      stderr,
      /CudaIpcError: Cannot connect to a hub at \/proc\/none\/hub\.sock: none listens there/,
    );
    assert.match(stderr, /\/src\/client\/connect\.ts:\d+:\d+\)/);
    assert.match(stderr, /code: 'HUB_UNAVAILABLE'/);
    const { remedy } = errorCodes.HUB_UNAVAILABLE;
    assert.equal(stderr.split(`remedy: '${remedy.replaceAll("'", "\\'")}'`).length, 2, stderr);
  });
});

describe("the package", { skip: existsSync(DIST) ? false : "dist is not built" }, () => {
  const scripts = readdirSync(DIST, { recursive: true, encoding: "utf8" }).filter(
    // The page of the dashboard is served as it was written.
    (file) => file.endsWith(".js") && !/^(examples|cli\/dashboard\/page)\//.test(file),
  );

  it("has a map for each script, and the sources that the map names", () => {
    const { files } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as {
      files: string[];
    };
    assert.ok(files.includes("src"));
    assert.ok(scripts.length > 0);
    for (const script of scripts) {
      const path = join(DIST, script);
      const name = /\/\/# sourceMappingURL=(.+\.map)\s*$/.exec(readFileSync(path, "utf8"))?.[1];
      assert.ok(name, `${script} names no map`);
      const map = JSON.parse(readFileSync(join(dirname(path), name), "utf8")) as {
        sources: string[];
      };
      for (const source of map.sources) {
        const found = resolve(dirname(path), source);
        assert.ok(
          found.startsWith(join(ROOT, "src/")) && existsSync(found),
          `${script}: ${source}`,
        );
      }
    }
  });
});

describe("an uncaught error of the bundled command line", () => {
  it("points into the sources if Node reads source maps", () => {
    const preload = `Object.defineProperty(process, "stdout", { get() { throw new Error("no output"); } });`;
    const args = [
      "--enable-source-maps",
      `--import=data:text/javascript,${encodeURIComponent(preload)}`,
      LAUNCH,
      "ls",
    ];
    const { status, stderr } = spawnSync(process.execPath, args, { encoding: "utf8" });
    assert.equal(status, 1);
    assert.match(stderr, /no output[\s\S]*\bsrc\/cli\/main\.ts:\d+/);
  });
});
