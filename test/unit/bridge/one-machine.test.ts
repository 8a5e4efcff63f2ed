/** Whoever uses one machine pays nothing for several. */
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../../../../", import.meta.url));
const SRC = join(ROOT, "src");
const FOR_SEVERAL = /^(bridge|ucx)\/|libucp|bridge-call|open-anywhere|@nats-io/;

/** Modules that are loaded with a module: `import` and `export from`, but no `import()`. */
function loadedWith(entry: string): Set<string> {
  const found = new Set<string>();
  const visit = (path: string): void => {
    if (found.has(path)) return;
    found.add(path);
    const file = join(SRC, path);
    if (!existsSync(file)) return;
    const code = readFileSync(file, "utf8").replace(/\/\*[\s\S]*?\*\//g, "");
    const imports = code.matchAll(
      /^(?:import|export)(?! type\b)(?:[^;"']*?\bfrom)?\s*["']([^"']+)["']/gm,
    );
    for (const [, name = ""] of imports) {
      const target = name.startsWith(".")
        ? resolve(dirname(file), name)
            .slice(SRC.length + 1)
            .replace(/\.js$/, ".ts")
        : name;
      visit(target);
    }
  };
  visit(entry);
  return found;
}

describe("one machine", () => {
  it("has four dependencies, and none of them is for several", () => {
    const manifest = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
    const names = Object.keys(manifest.dependencies);
    assert.deepEqual(names, ["cli-progress", "commander", "koffi", "valibot"]);
    const peers = Object.keys(manifest.peerDependencies);
    for (const name of peers) assert.equal(manifest.peerDependenciesMeta[name].optional, true);
  });

  for (const entry of ["index.ts", "hub/main.ts", "keeper/main.ts", "doors/service.ts"]) {
    it(`loads nothing for several with ${entry}`, () => {
      const loaded = [...loadedWith(entry)];
      assert.ok(loaded.length > 20 || entry === "keeper/main.ts", `${loaded.length} modules`);
      assert.deepEqual(
        loaded.filter((path) => FOR_SEVERAL.test(path)),
        [],
      );
    });
  }

  it("loads neither engine with the command line", () => {
    const loaded = [...loadedWith("cli/main.ts")];
    assert.deepEqual(
      loaded.filter((path) => /^(bridge|ucx)\/|libucp|@nats-io/.test(path)),
      [],
    );
    assert.ok(loaded.includes("cli/commands/bridge.ts"));
  });

  it("finds a module that is loaded", () => {
    assert.ok(loadedWith("bridge/bridge.ts").has("ffi/libucp.ts"));
  });
});
