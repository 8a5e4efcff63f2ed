/** The TypeScript examples of a Markdown page as modules that run against the compiled sources, and whether they fit the API. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import ts from "typescript";

export interface CodeBlock {
  /** `README.md:32` */
  readonly place: string;
  readonly typescript: string;
  /** Marked as "ts gpu": it runs on a GPU alone. */
  readonly needsGpu: boolean;
}

export function codeBlocks(page: string): CodeBlock[] {
  const text = readFileSync(page, "utf8");
  return [...text.matchAll(/^```ts( gpu)?\n([\s\S]*?)^```/gm)].map((match) => ({
    place: `${page}:${text.slice(0, match.index).split("\n").length}`,
    typescript: match[2] ?? "",
    needsGpu: match[1] !== undefined,
  }));
}

/** JavaScript for the oldest supported Node, with the package's name replaced by the file that it stands for. */
export function runnable(block: CodeBlock, packageFile: string): string {
  const source = block.typescript.replaceAll('"cuda-ipc"', JSON.stringify(packageFile));
  const options = { target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.ESNext };
  return ts.transpileModule(source, { compilerOptions: options }).outputText;
}

/** What it prints according to the comments behind its `console.log`. */
export function promisedLines({ typescript }: CodeBlock): string[] {
  return [...typescript.matchAll(/^ *console\.log\(.*\); \/\/ (.+)$/gm)].map(([, line = ""]) => line);
}

/** What the compiler says to the blocks, a sentence each; nothing where they are right. They are not run. */
export function typeFaults(blocks: readonly CodeBlock[]): string[] {
  const root = process.cwd();
  const sources = new Map(blocks.map((block, i) => [join(root, "docs", `block-${i}.mts`), block]));
  const options: ts.CompilerOptions = {
    target: ts.ScriptTarget.ES2022,
    lib: ["lib.es2023.d.ts", "lib.esnext.disposable.d.ts"],
    module: ts.ModuleKind.NodeNext,
    types: ["node"],
    strict: true,
    noEmit: true,
    skipLibCheck: true,
    paths: { "cuda-ipc": [join(root, "src/index.ts")] },
  };
  const host = ts.createCompilerHost(options);
  const { readFile, fileExists } = host;
  host.fileExists = (path) => sources.has(path) || fileExists(path);
  host.readFile = (path) => sources.get(path)?.typescript ?? readFile(path);
  const program = ts.createProgram([...sources.keys()], options, host);
  return [...sources].flatMap(([path, { place }]) => {
    const file = program.getSourceFile(path);
    const found = [...program.getSyntacticDiagnostics(file), ...program.getSemanticDiagnostics(file)];
    return found.map(({ messageText }) => `${place}: ${ts.flattenDiagnosticMessageText(messageText, " ")}`);
  });
}
