// Compiles src, test, bench and examples to build/, where tests, benchmarks and the GPU bundle run
// them.
// WHY esbuild: it takes a second where tsc takes twelve. `npm run typecheck` checks the types.
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { build } from "esbuild";
import { lowerUsing } from "./lower-using.mjs";
import { bundlePrograms } from "./programs.mjs";

const FOLDERS = ["src", "test", "bench", "examples"];

/** Ends the process if compiling fails. The compiler prints why. */
export async function compile() {
  await tryCompile().catch(() => process.exit(1));
}

/** @throws if compiling fails; the compiler prints why */
export async function tryCompile() {
  for (const folder of FOLDERS) rmSync(join("build", folder), { recursive: true, force: true });
  await transpile(FOLDERS.flatMap(sourcesIn));
  await bundlePrograms("build/src", ["test/support/seam/inside.ts"]);
  for (const file of readdirSync("build/examples", { recursive: true }).filter((name) =>
    name.endsWith(".js"),
  )) {
    asTested(join("build/examples", file));
  }
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
 * Lets an example import what was just compiled. By its name it would import the package in dist/.
 */
function asTested(path) {
  const code = readFileSync(path, "utf8").replaceAll(/"cuda-ipc(?:\/(\w+))?"/g, (_, door) => {
    const file = door === undefined ? "build/src/index.js" : `build/src/doors/${door}.js`;
    return JSON.stringify(relative(dirname(path), file));
  });
  writeFileSync(path, code.replaceAll(/(from "\.[^"]*)\.ts"/g, '$1.js"'));
}
