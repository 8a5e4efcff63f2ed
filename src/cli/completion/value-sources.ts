/** What completion offers for a value, by the name that its definition has: `<device>`. */
import type { Argument, Command, Option } from "commander";
import { dtypeNames } from "../../array/dtype.js";
import { demoMeetsAtPath, demoNames, demoRoles } from "../commands/demo.js";
import { interfaceNames } from "../network-interfaces.js";
import { gpuNames } from "./gpu-names.js";
import type { HubNames } from "./hub-names.js";
import type { Offers } from "./offer.js";
import { commandsOf, pathOf } from "./wanted-value.js";

export interface Situation {
  readonly program: Command;
  readonly names: HubNames;
  /** The arguments before the value. */
  readonly given: readonly string[];
}

type Source = (situation: Situation) => Offers | Promise<Offers>;

const files: Source = () => "files";
const nothing: Source = () => [];

/** `channel name` is the name of any command of `channel`. */
const sources: Readonly<Record<string, Source>> = {
  name: ({ names }) => names.objects(),
  names: ({ names }) => names.objects(),
  "get name": ({ names }) => names.objects("array", "bundle"),
  "channel name": ({ names }) => names.objects("channel"),
  // The name of a new object.
  "put name": nothing,
  // Names of other machines, users and buckets.
  "pull name": nothing,
  "bridge name": nothing,
  array: ({ names, given: [bundle] }) => (bundle === undefined ? [] : names.arrays(bundle)),
  "bridge interface": () => plain(interfaceNames()),
  device: () => plain(["auto", "host", ...gpuNames()]),
  dtype: () => plain(dtypeNames),
  file: files,
  files,
  path: files,
  "demo name": () => plain(demoNames()),
  "demo role": ({ given: [name = ""] }) => plain(demoRoles(name)),
  "demo meeting-point": ({ given: [name = ""] }) => (demoMeetsAtPath(name) ? "files" : []),
  "help command": ({ program, given }) => commandsAt(program, given),
  // What only the user knows.
  ...Object.fromEntries(
    [
      "address",
      "count",
      "groups",
      "json",
      "limit",
      "ms",
      "pids",
      "pattern",
      "rate",
      "shape",
      "size",
      "text",
      "time",
      "token",
      "uids",
      "urls",
      "users",
    ].map((name) => [name, nothing]),
  ),
};

/** Undefined if nobody has decided what to offer for values of this name. */
export function sourceOf(command: Command, of: Argument | Option): Source | undefined {
  const choices = of.argChoices;
  if (choices !== undefined) return () => plain(choices);
  const name = "flags" in of ? (/[<[]([^\]>.]+)/.exec(of.flags)?.[1] ?? "") : of.name();
  for (let words = pathOf(command).split(" "); words.length > 0; words = words.slice(0, -1)) {
    const source = sources[`${words.join(" ")} ${name}`];
    if (source !== undefined) return source;
  }
  return sources[name];
}

function plain(values: readonly string[]): Offers {
  return values.map((value) => ({ value }));
}

function commandsAt(program: Command, words: readonly string[]): Offers {
  let command: Command | undefined = program;
  for (const word of words) command = command?.commands.find((one) => one.name() === word);
  return command === undefined ? [] : commandOffers(command);
}

export function commandOffers(command: Command): Offers {
  return commandsOf(command).map((one) => ({ value: one.name(), text: one.description() }));
}
