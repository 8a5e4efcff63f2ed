/**
 * The output that the first comment of an example promises, as patterns. Numbers, devices and "..."
 * match any.
 */
import { readFileSync } from "node:fs";

export interface ExampleHead {
  readonly text: string;
  /** One for each line of the output, without its process. */
  readonly lines: readonly RegExp[];
}

export function exampleHead(name: string): ExampleHead {
  const source = readFileSync(`examples/${name}.ts`, "utf8");
  const text = source.slice(0, source.indexOf("*/"));
  const lines = [...text.slice(text.indexOf("The output")).matchAll(/^ \* {3}\d+ {2}(.+)$/gm)];
  return { text, lines: lines.map(([, line = ""]) => pattern(line)) };
}

/** The lines that docs/two-terminals.md promises of a side, as patterns. */
export function terminalLines(name: string, side: string): RegExp[] {
  const page = readFileSync("docs/two-terminals.md", "utf8").replaceAll(" /tmp/meet", " ...");
  const start = page.indexOf(`$ npx cuda-ipc demo ${name} ${side} `);
  return start < 0 ? [] : saidIn(page.slice(start, page.indexOf("```", start))).map(pattern);
}

/** The lines that an example printed, without their processes. */
export function saidIn(output: string): string[] {
  return [...output.matchAll(/^ +\d+ {2}(.+)$/gm)].map(([, line = ""]) => line);
}

function pattern(line: string): RegExp {
  const text = line
    .replaceAll(/[[\](){}+*?^$|\\/]/g, "\\$&")
    .replaceAll("...", "\0")
    .replaceAll(/cuda:\d+/g, "\u0001")
    .replaceAll(/-?\d+(\.\d+)?/g, "-?\\d+(\\.\\d+)?")
    .replaceAll("\0", ".*")
    .replaceAll("\u0001", "(host|cuda:\\d+)");
  return new RegExp(`^${text}$`);
}
