/**
 * Finds a cuda.h and reads it by a C compiler: values, sizes, offsets, symbols and declarations.
 */
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";

export interface CudaHeader {
  /** Where it was found. */
  readonly folder: string;
  /** Evaluates C expressions by a compiled program, and returns the numbers by key. */
  evaluate(expressions: ReadonlyMap<string, string>): Map<string, number>;
  /** Compiles a C source that includes the header. */
  compile(source: string, result: string, flags: readonly string[]): void;
  /** Expands each name by the preprocessor. */
  expand(names: readonly string[]): Map<string, string>;
  /** The declared parameter types of each function, without parameter names. */
  parameters(functions: readonly string[]): Map<string, string[] | undefined>;
}

/** A header with a compiler, or the reason why there is none. */
export function findCudaHeader(): CudaHeader | string {
  const compiler = ["cc", "gcc", "clang"].find(
    (name) => spawnSync(name, ["--version"]).status === 0,
  );
  if (compiler === undefined) return "no C compiler (cc, gcc, clang)";
  const folders = candidates();
  const folder = folders.find((it) => existsSync(join(it, "cuda.h")));
  if (folder === undefined) return `no cuda.h in ${folders.join(", ")}; set CUDA_HEADER_DIR`;
  return new CompiledHeader(compiler, folder);
}

function candidates(): string[] {
  const { CUDA_HEADER_DIR, CUDA_HOME, PATH } = process.env;
  const folders = ["/usr/local/cuda/include"];
  if (CUDA_HOME) folders.unshift(join(CUDA_HOME, "include"));
  if (CUDA_HEADER_DIR) folders.unshift(CUDA_HEADER_DIR);
  for (const folder of (PATH ?? "").split(delimiter)) {
    const nvcc = join(folder, "nvcc");
    if (existsSync(nvcc)) folders.push(join(dirname(dirname(realpathSync(nvcc))), "include"));
  }
  return folders;
}

class CompiledHeader implements CudaHeader {
  readonly folder: string;
  readonly #compiler: string;
  #prototypes: string | undefined;

  constructor(compiler: string, folder: string) {
    this.#compiler = compiler;
    this.folder = folder;
  }

  evaluate(expressions: ReadonlyMap<string, string>): Map<string, number> {
    const lines = [...expressions].map(
      ([key, text]) => `printf("%s %lld\\n", "${key}", (long long)(${text}));`,
    );
    const program = [
      "#include <cuda.h>",
      "#include <stddef.h>",
      "#include <stdio.h>",
      "int main(void) {",
      ...lines,
      "}",
    ];
    return new Map(
      this.#run(program.join("\n"))
        .trim()
        .split("\n")
        .map((line) => {
          const space = line.lastIndexOf(" ");
          return [line.slice(0, space), Number(line.slice(space + 1))];
        }),
    );
  }

  compile(source: string, result: string, flags: readonly string[]): void {
    command(this.#compiler, [`-I${this.folder}`, ...flags, "-o", result, source]);
  }

  expand(names: readonly string[]): Map<string, string> {
    // The quoted name stays as it is; the header expands the other.
    const text = this.#preprocess(names.map((name) => `"@${name}" ${name} ;`).join("\n"));
    return new Map(
      [...text.matchAll(/"@(\w+)"\s+(\w+)\s*;/g)].map((match) => [match[1] ?? "", match[2] ?? ""]),
    );
  }

  parameters(functions: readonly string[]): Map<string, string[] | undefined> {
    this.#prototypes ??= this.#preprocess("").replace(/\s+/g, " ");
    const prototypes = this.#prototypes;
    return new Map(functions.map((name) => [name, parametersOf(prototypes, name)]));
  }

  #preprocess(text: string): string {
    return this.#inFolder((folder) => {
      const source = join(folder, "source.c");
      writeFileSync(source, `#include <cuda.h>\n${text}\n`);
      return command(this.#compiler, ["-E", "-P", `-I${this.folder}`, source]);
    });
  }

  #run(program: string): string {
    return this.#inFolder((folder) => {
      const [source, binary] = [join(folder, "program.c"), join(folder, "program")];
      writeFileSync(source, program);
      this.compile(source, binary, []);
      return command(binary, []);
    });
  }

  #inFolder<T>(use: (folder: string) => T): T {
    const folder = mkdtempSync(join(tmpdir(), "cuda-header-"));
    try {
      return use(folder);
    } finally {
      rmSync(folder, { recursive: true });
    }
  }
}

function command(program: string, values: readonly string[]): string {
  const { status, stdout, stderr } = spawnSync(program, values, {
    encoding: "utf8",
    maxBuffer: 64 * 1024 * 1024,
  });
  if (status !== 0) throw new Error(`${program} ended with ${status}: ${stderr}`);
  return stdout;
}

/** No function here takes a function pointer, so a declaration ends at the first parenthesis. */
function parametersOf(prototypes: string, name: string): string[] | undefined {
  const match = new RegExp(`\\bCUresult ${name} ?\\(([^)]*)\\)`).exec(prototypes);
  return match?.[1]?.split(",").map((parameter) => parameter.trim().replace(/\w+$/, "").trim());
}
