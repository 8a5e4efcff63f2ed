// A loop for development: `npm run test:watch` compiles the files that you save and runs the quick
// tests that import them. `npm run test:watch -- process/cli` runs all of these files after each
// change instead.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readdirSync, readFileSync, watch } from "node:fs";
import { dirname, join } from "node:path";
import { bundleActors } from "./bundle-actors.mjs";
import { compile, transpile, tryCompile } from "./compile.mjs";
import { chosenFiles } from "./test-sets.mjs";

const FOLDERS = ["src", "test"];
/** Editors write a file in several steps. */
const SETTLED_MS = 50;
const prefixes = process.argv.slice(2);

const changed = new Set();
let wake = () => {};
for (const folder of FOLDERS) {
  watch(folder, { recursive: true }, (_, name) => {
    if (!name?.endsWith(".ts")) return;
    changed.add(join(folder, name));
    setTimeout(() => wake(), SETTLED_MS);
  });
}

await compile();
if (prefixes.length > 0) await bundleActors();
console.log("Watching src and test.");
for (;;) {
  if (changed.size === 0) {
    await new Promise((resolve) => {
      wake = resolve;
    });
  }
  const files = [...changed].filter((file) => existsSync(file));
  changed.clear();
  if (files.length > 0) await test(files);
}

async function test(files) {
  try {
    // Given files may start processes, which run bundles, so everything is compiled.
    await (prefixes.length > 0 ? tryCompile().then(bundleActors) : transpile(files));
  } catch {
    // esbuild has printed what is wrong. The next change may fix it.
    return;
  }
  const wanted = prefixes.length > 0 ? prefixes : testsOf(files);
  if (wanted.length === 0) {
    console.log(`No quick test imports ${files.join(", ")}.`);
    return;
  }
  const child = spawn(process.execPath, ["scripts/test.mjs", "--prebuilt", ...wanted], {
    stdio: "inherit",
  });
  await once(child, "exit");
}

/** The quick tests that import one of these files, directly or not. */
function testsOf(files) {
  const sources = FOLDERS.flatMap((folder) =>
    readdirSync(folder, { recursive: true })
      .filter((name) => name.endsWith(".ts"))
      .map((name) => join(folder, name)),
  );
  const importersOf = new Map(sources.map((source) => [source, []]));
  for (const source of sources) {
    for (const [, path] of readFileSync(source, "utf8").matchAll(
      /\b(?:from|import)\s*\(?\s*"(\.[^"]+)\.js"/g,
    ))
      importersOf.get(`${join(dirname(source), path)}.ts`)?.push(source);
  }
  const reached = new Set(files);
  for (const file of reached)
    for (const importer of importersOf.get(file) ?? []) reached.add(importer);
  const tests = [...reached]
    .filter((file) => file.startsWith("test/") && file.endsWith(".test.ts"))
    .map((file) => file.slice("test/".length).replace(/\.ts$/, ".js"));
  return chosenFiles(tests, "quick", []);
}
