// Compiles src, test, bench and examples to build/, where tests, benchmarks and the GPU bundle run
// them.
// WHY esbuild: it takes a second where tsc takes twelve. `npm run typecheck` checks the types.
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { build } from "esbuild";
import { lowerUsing } from "./lower-using.mjs";
import { bundleDoors, bundlePrograms } from "./programs.mjs";

const FOLDERS = ["src", "test", "bench", "examples"];

/** Compiled programs that import the package by its name. */
const USING_DOORS = ["build/examples", "build/test/gpu/actors"];

/** Ends the process if compiling fails. The compiler prints why. */
export async function compile() {
  await tryCompile().catch(() => process.exit(1));
}

/** @throws if compiling fails; the compiler prints why */
export async function tryCompile() {
  for (const folder of FOLDERS) rmSync(join("build", folder), { recursive: true, force: true });
  await transpile(FOLDERS.flatMap(sourcesIn));
  await bundlePrograms("build/src", {
    hub: ["test/support/seam/inside.ts"],
    commandLine: ["test/support/machines/inside-bridge.ts"],
  });
  await bundleDoors("build/src", "bundled");
  for (const folder of USING_DOORS)
    for (const file of readdirSync(folder, { recursive: true }))
      if (file.endsWith(".js")) asTested(join(folder, file));
}

/** Compiles each file separately. */
export function transpile(files) {
  return build({
    entryPoints: files,
    outdir: "build",
    outbase: ".",
    platform: "node",
    target: "es2022",
    plugins: [lowerUsing],
    sourcemap: true,
    sourcesContent: false,
    logLevel: "warning",
  });
}

function sourcesIn(folder) {
  return readdirSync(folder, { recursive: true })
    .filter((name) => name.endsWith(".ts") && !name.endsWith(".d.ts"))
    .map((name) => join(folder, name));
}

/**
 * Lets a program import the doors that were just bundled. By its name it would import the package
 * in dist/.
 */
function asTested(path) {
  const code = readFileSync(path, "utf8").replaceAll(/"cuda-ipc(?:\/(\w+))?"/g, (_, door) => {
    const file = door === undefined ? "index" : `doors/${door}`;
    return JSON.stringify(relative(dirname(path), `build/src/bundled/${file}.js`));
  });
  writeFileSync(path, code.replaceAll(/(from "\.[^"]*)\.ts"/g, '$1.js"'));
}
