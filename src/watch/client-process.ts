/** What /proc tells of a client's process: its command line, and with that its language. */
import { readFileSync } from "node:fs";

/** Longer command lines are cut. */
const COMMAND_CHARACTERS_MAX = 1024;

export interface ClientProcess {
  readonly command: string | undefined;
  readonly language: string | undefined;
}

/** @param pid undefined if its number means nothing in this PID namespace */
export function clientProcess(pid: number | undefined, program: string): ClientProcess {
  const command = pid === undefined ? undefined : commandOf(pid);
  return { command, language: languageOf(program, command) };
}

/** Undefined if the process has ended or may not be looked at. */
function commandOf(pid: number): string | undefined {
  try {
    const words = readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0");
    const text = words.join(" ").trim();
    return text === "" ? undefined : text.slice(0, COMMAND_CHARACTERS_MAX);
  } catch {
    return undefined;
  }
}

const languages: readonly {
  readonly name: string;
  readonly program: RegExp;
  readonly run: RegExp;
}[] = [
  { name: "JavaScript", program: /\.[cm]?[jt]sx?$/, run: /^(\S*\/)?(node|bun|deno)\d*(\s|$)/ },
  { name: "Python", program: /\.py$/, run: /^(\S*\/)?python[\d.]*t?(\s|$)/ },
];

/** The language of a program, by its file or by what runs it. Undefined for any other. */
export function languageOf(program: string, command: string | undefined): string | undefined {
  const byFile = languages.find((language) => language.program.test(program));
  return (byFile ?? languages.find((language) => language.run.test(command ?? "")))?.name;
}
