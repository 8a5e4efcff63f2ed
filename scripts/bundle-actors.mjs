// Bundles each actor of the tests into one file in build/. Actors then start in half the time.
import { readdirSync, readFileSync } from "node:fs";
import { join, relative, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { build } from "esbuild";
import { lowered } from "./lower-using.mjs";

/** Not for the GPU bundle, which takes `bundleTests`: these contain absolute paths. */
export async function bundleActors() {
  await build({
    entryPoints: readdirSync("test", { recursive: true })
      .filter((name) => /\/actors\/[^/]+\.ts$/.test(name))
      .map((name) => join("test", name)),
    outdir: "build",
    outbase: ".",
    bundle: true,
    format: "esm",
    platform: "node",
    target: "node20.19",
    packages: "external",
    sourcemap: true,
    sourcesContent: false,
    logLevel: "warning",
    plugins: [
      { name: "own-place", setup: (bundling) => bundling.onLoad({ filter: /\.ts$/ }, load) },
    ],
  });
}

/** Keeps `import.meta.url` of each source, because sources find other files by it. */
function load({ path }) {
  if (path.includes("/node_modules/")) return undefined;
  const compiled = resolve("build", relative(".", path)).replace(/\.ts$/, ".js");
  const contents = readFileSync(path, "utf8");
  return lowered(
    path,
    contents.replaceAll("import.meta.url", JSON.stringify(pathToFileURL(compiled))),
  );
}
