/** Finds what the last word of a command line stands for, by the definitions of the commands. */
import { type Argument, type Command, Help, type Option } from "commander";

export type WantedValue =
  | { readonly kind: "command"; readonly command: Command }
  | { readonly kind: "option"; readonly command: Command }
  | {
      readonly kind: "value";
      readonly command: Command;
      readonly of: Argument | Option;
      /** The arguments before it. */
      readonly given: readonly string[];
      /** The part of the last word that is not the value: `--device=`. */
      readonly attached: string;
    };

const help = new Help();

/**
 * @param words after the program's name; the last one is being typed, and may be empty
 * @returns undefined if the command takes nothing there
 */
export function wantedValue(program: Command, words: readonly string[]): WantedValue | undefined {
  const current = words.at(-1) ?? "";
  let command = program;
  let awaiting: Option | undefined;
  let takesOptions = true;
  const given: string[] = [];
  for (const word of words.slice(0, -1)) {
    if (awaiting !== undefined && isValueOf(awaiting, word)) awaiting = undefined;
    else if (takesOptions && word === "--") takesOptions = false;
    else if (takesOptions && isOption(word)) awaiting = optionAwaiting(command, word);
    else if (command.commands.length === 0) given.push(word);
    else {
      const next = command.commands.find((one) => one.name() === word);
      if (next === undefined) return undefined;
      command = next;
    }
  }
  if (awaiting !== undefined && isValueOf(awaiting, current))
    return { kind: "value", command, of: awaiting, given, attached: "" };
  if (takesOptions && current.startsWith("-")) {
    const [attached = "", name = ""] = /^(--[^=]+)=/.exec(current) ?? [];
    if (attached === "") return { kind: "option", command };
    const of = optionsOf(command).find((option) => option.long === name);
    return of && takesValue(of) ? { kind: "value", command, of, given, attached } : undefined;
  }
  if (command.commands.length > 0) return { kind: "command", command };
  const last = command.registeredArguments.at(-1);
  const of = command.registeredArguments[given.length] ?? (last?.variadic ? last : undefined);
  if (of !== undefined) return { kind: "value", command, of, given, attached: "" };
  return takesOptions ? { kind: "option", command } : undefined;
}

/** The commands that `--help` lists. */
export function commandsOf(command: Command): readonly Command[] {
  return help.visibleCommands(command);
}

/** The options that `--help` lists, with `--help` itself. */
export function optionsOf(command: Command): readonly Option[] {
  return help.visibleOptions(command);
}

/** `hub serve` */
export function pathOf(command: Command): string {
  const { parent } = command;
  return parent === null ? "" : `${pathOf(parent)} ${command.name()}`.trim();
}

/** A lone "-" is an argument, and a negative number, too. */
function isOption(word: string): boolean {
  return /^-[^\d]/.test(word);
}

/** Whether the word after an option is its value. An optional value does not begin with "-". */
function isValueOf(option: Option, word: string): boolean {
  return option.required || !word.startsWith("-");
}

function takesValue({ required, optional }: Option): boolean {
  return required || optional;
}

/** The option in this word whose value is the next word: the last letter of `-fo`. */
function optionAwaiting(command: Command, word: string): Option | undefined {
  const options = optionsOf(command);
  if (word.startsWith("--"))
    return options.find((option) => option.long === word && takesValue(option));
  for (const [index, letter] of [...word.slice(1)].entries()) {
    const option = options.find(({ short }) => short === `-${letter}`);
    if (option === undefined) return undefined;
    if (takesValue(option)) return index === word.length - 2 ? option : undefined;
  }
  return undefined;
}
