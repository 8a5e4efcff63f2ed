// Lets TypeScript lower `using`, which Node.js 20 does not know, before esbuild compiles a file.
// WHY not esbuild (0.28.2): in a loop it keeps the error of an earlier round, and throws it again
// in each later round.
import { readFileSync } from "node:fs";
import ts from "typescript";

const { config } = ts.readConfigFile("tsconfig.json", ts.sys.readFile);
const { options } = ts.convertCompilerOptionsFromJson(
  {
    ...config.compilerOptions,
    // For a single file, TypeScript does not know that the package has ES modules.
    module: "ESNext",
    moduleResolution: "Bundler",
    inlineSourceMap: true,
    sourceMap: false,
  },
  ".",
);

/** @param source the text of a TypeScript file */
export function lowered(path, source) {
  if (!/\busing\s+\w/.test(source)) return { contents: source, loader: "ts" };
  const { outputText } = ts.transpileModule(source, { compilerOptions: options, fileName: path });
  return { contents: outputText, loader: "js" };
}

export const lowerUsing = {
  name: "lower-using",
  setup(bundling) {
    bundling.onLoad({ filter: /\.ts$/ }, ({ path }) =>
      path.includes("/node_modules/") ? undefined : lowered(path, readFileSync(path, "utf8")),
    );
  },
};
