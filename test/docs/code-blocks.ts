/** The TypeScript and JavaScript examples of a page, as modules to run and to check. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type ts from "typescript";
import typescript from "typescript";

export interface CodeBlock {
  /** `README.md:32` */
  readonly place: string;
  readonly typescript: string;
  /** Marked as "ts gpu": it needs a GPU. */
  readonly needsGpu: boolean;
}

export function codeBlocks(page: string): CodeBlock[] {
  const text = readFileSync(page, "utf8");
  return [...text.matchAll(/^```(?:ts|js)( gpu)?\n([\s\S]*?)^```/gm)].map((match) => ({
    place: `${page}:${text.slice(0, match.index).split("\n").length}`,
    typescript: match[2] ?? "",
    needsGpu: match[1] !== undefined,
  }));
}

/** JavaScript for the oldest supported Node. Imports of the package become files of `sources`. */
export function runnable(block: CodeBlock, sources: string): string {
  const source = block.typescript.replaceAll(/"cuda-ipc(?:\/(\w+))?"/g, (_, door?: string) =>
    JSON.stringify(join(sources, door === undefined ? "index.js" : `doors/${door}.js`)),
  );
  const { ScriptTarget, ModuleKind } = typescript;
  const options = { target: ScriptTarget.ES2022, module: ModuleKind.ESNext };
  return typescript.transpileModule(source, { compilerOptions: options }).outputText;
}

/** The lines that the comments behind its `console.log` calls promise. */
export function promisedLines({ typescript }: CodeBlock): string[] {
  return [...typescript.matchAll(/^ *console\.log\(.*\); \/\/ (.+)$/gm)].map(
    ([, line = ""]) => line,
  );
}

export interface Compiling {
  /** Another version of TypeScript. */
  readonly compiler?: typeof ts;
  /** The folder with the types of the package. Without it, its sources. */
  readonly published?: string;
  /** Further files of `lib`. */
  readonly libs?: readonly string[];
}

/** The compiler's errors in the blocks, a sentence each. The blocks are not run. */
export function typeFaults(
  blocks: readonly CodeBlock[],
  { compiler: ts = typescript, published, libs = [] }: Compiling = {},
): string[] {
  const root = process.cwd();
  const [types, end] = published === undefined ? ["src", "ts"] : [published, "d.ts"];
  const sources = new Map(blocks.map((block, i) => [join(root, "docs", `block-${i}.mts`), block]));
  const options: ts.CompilerOptions = {
    target: ts.ScriptTarget.ES2022,
    lib: ["lib.es2023.d.ts", "lib.esnext.disposable.d.ts", ...libs],
    module: ts.ModuleKind.NodeNext,
    types: ["node"],
    strict: true,
    noEmit: true,
    skipLibCheck: true,
    paths: {
      "cuda-ipc": [join(root, `${types}/index.${end}`)],
      "cuda-ipc/*": [join(root, `${types}/doors/*.${end}`)],
    },
  };
  const host = ts.createCompilerHost(options);
  const { readFile, fileExists } = host;
  host.fileExists = (path) => sources.has(path) || fileExists(path);
  host.readFile = (path) => sources.get(path)?.typescript ?? readFile(path);
  const program = ts.createProgram([...sources.keys()], options, host);
  return [...sources].flatMap(([path, { place }]) => {
    const file = program.getSourceFile(path);
    const found = [
      ...program.getSyntacticDiagnostics(file),
      ...program.getSemanticDiagnostics(file),
    ];
    return found.map(
      ({ messageText }) => `${place}: ${ts.flattenDiagnosticMessageText(messageText, " ")}`,
    );
  });
}
