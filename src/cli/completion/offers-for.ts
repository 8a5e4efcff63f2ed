/** What can stand at the end of a command line. */
import type { Command } from "commander";
import type { HubNames } from "./hub-names.js";
import type { Offers } from "./offer.js";
import { commandOffers, sourceOf } from "./value-sources.js";
import { optionsOf, wantedValue } from "./wanted-value.js";

/**
 * @param words after the program's name; the last one is being typed, and may be empty. The caller
 *   drops the offers that do not go on with it.
 */
export async function offersFor(
  program: Command,
  words: readonly string[],
  names: HubNames,
): Promise<Offers> {
  const wanted = wantedValue(program, words);
  if (wanted === undefined) return [];
  if (wanted.kind === "command") return commandOffers(wanted.command);
  if (wanted.kind === "option") {
    return optionsOf(wanted.command).map(({ long, short, description }) => ({
      value: long ?? short ?? "",
      text: description,
    }));
  }
  const { command, of, given, attached } = wanted;
  const offers = (await sourceOf(command, of)?.({ program, names, given })) ?? [];
  if (offers === "files") return offers;
  // No command takes the same name twice, and no argument of a process has the character NUL.
  const known = new Set("flags" in of || !of.variadic ? [] : given);
  return offers
    .filter(({ value }) => value !== "" && !value.includes("\0") && !known.has(value))
    .map(({ value, ...rest }) => ({ value: `${attached}${value}`, ...rest }));
}
