// Compiles src, test, bench and examples to build/, where tests, benchmarks and the GPU bundle run them.
// WHY esbuild: it takes a second where tsc takes twelve. `npm run typecheck` checks the types.
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { build } from "esbuild";
import { lowerUsing } from "./lower-using.mjs";
import { bundlePrograms } from "./programs.mjs";

const FOLDERS = ["src", "test", "bench", "examples"];

/** Ends the process if the compiler finds fault, which it has printed. */
export async function compile() {
  await tryCompile().catch(() => process.exit(1));
}

/** @throws if the compiler finds fault, which it has printed */
export async function tryCompile() {
  for (const folder of FOLDERS) rmSync(join("build", folder), { recursive: true, force: true });
  await transpile(FOLDERS.flatMap(sourcesIn));
  await bundlePrograms("build/src", ["test/support/seam/inside.ts"]);
  for (const file of readdirSync("build/examples", { recursive: true }).filter((name) => name.endsWith(".js"))) {
    asTested(join("build/examples", file));
  }
}

/** Compiles each of these files by itself. */
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

/** WHY: an example imports the package by its name, which is dist/; what is tested is what was compiled just now. */
function asTested(path) {
  const door = relative(dirname(path), "build/src/index.js");
  const code = readFileSync(path, "utf8").replaceAll('"cuda-ipc"', JSON.stringify(door));
  writeFileSync(path, code.replaceAll(/(from "\.[^"]*)\.ts"/g, '$1.js"'));
}
