/** The TypeScript examples of a Markdown page as modules that run against the compiled sources. */
import { readFileSync } from "node:fs";
import ts from "typescript";

export interface CodeBlock {
  /** `README.md:32` */
  readonly place: string;
  readonly typescript: string;
}

export function codeBlocks(page: string): CodeBlock[] {
  const text = readFileSync(page, "utf8");
  return [...text.matchAll(/^```ts\n([\s\S]*?)^```/gm)].map((match) => ({
    place: `${page}:${text.slice(0, match.index).split("\n").length}`,
    typescript: match[1] ?? "",
  }));
}

/** JavaScript for the oldest supported Node, with the package's name replaced by the file that it stands for. */
export function runnable(block: CodeBlock, packageFile: string): string {
  const source = block.typescript.replaceAll('"cuda-ipc"', JSON.stringify(packageFile));
  const options = { target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.ESNext };
  return ts.transpileModule(source, { compilerOptions: options }).outputText;
}
