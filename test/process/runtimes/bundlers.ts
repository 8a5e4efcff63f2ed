/** Bundles a program into one file, with esbuild, Rollup or webpack. */
import { createRequire } from "node:module";
import { basename, dirname } from "node:path";

export interface Bundling {
  readonly entry: string;
  readonly output: string;
  readonly format: "esm" | "cjs";
  /** cuda-ipc stays out of the bundle, as the documents advise. */
  readonly external: boolean;
}

// WHY not imported: their types need other compiler settings than this project's.
const require = createRequire(import.meta.url);

async function esbuild({ entry, output, format, external }: Bundling): Promise<void> {
  await require("esbuild").build({
    entryPoints: [entry],
    outfile: output,
    bundle: true,
    platform: "node",
    format,
    external: external ? ["cuda-ipc"] : [],
    logLevel: "silent",
  });
}

async function rollup({ entry, output, format, external }: Bundling): Promise<void> {
  const { nodeResolve } = require("@rollup/plugin-node-resolve");
  const commonjs = require("@rollup/plugin-commonjs");
  const bundle = await require("rollup").rollup({
    input: entry,
    external: external ? [/^cuda-ipc/, /^node:/] : [/^node:/],
    plugins: [nodeResolve({ preferBuiltins: true }), commonjs()],
    logLevel: "silent",
  });
  await bundle.write({ file: output, format, inlineDynamicImports: true });
  await bundle.close();
}

async function webpack({ entry, output, format, external }: Bundling): Promise<void> {
  const webpack = require("webpack");
  const isModule = format === "esm";
  const compiler = webpack({
    mode: "production",
    target: "node20",
    entry,
    output: {
      path: dirname(output),
      filename: basename(output),
      ...(isModule ? { module: true, chunkFormat: "module", library: { type: "module" } } : {}),
    },
    experiments: { outputModule: isModule },
    externals: external ? [/^cuda-ipc/] : [],
    externalsType: isModule ? "module" : "commonjs",
    plugins: [new webpack.optimize.LimitChunkCountPlugin({ maxChunks: 1 })],
    optimization: { minimize: false },
  });
  const failure = await new Promise<string | undefined>((resolve, reject) => {
    compiler.run((error: unknown, stats: { hasErrors(): boolean; toString(): string }) => {
      if (error !== null) reject(error);
      else resolve(stats.hasErrors() ? stats.toString() : undefined);
    });
  });
  await new Promise((resolve) => compiler.close(resolve));
  if (failure !== undefined) throw new Error(failure);
}

export const bundlers = { esbuild, rollup, webpack };
