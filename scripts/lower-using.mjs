// Has TypeScript lower `using`, which Node.js 20 does not know, in the files that esbuild compiles.
// WHY not esbuild (0.28.2): in a loop it keeps the error of an earlier round, and throws it again at the end of each later one.
import { readFileSync } from "node:fs";
import ts from "typescript";

const { config } = ts.readConfigFile("tsconfig.json", ts.sys.readFile);
const { options } = ts.convertCompilerOptionsFromJson(
  {
    ...config.compilerOptions,
    // WHY: of one file by itself TypeScript does not know that its package has ES modules.
    module: "ESNext",
    moduleResolution: "Bundler",
    inlineSourceMap: true,
    sourceMap: false,
  },
  ".",
);

/** @param source of a TypeScript file */
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
