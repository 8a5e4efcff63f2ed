/** Options that are one of a few words, checked where the caller's stack still shows who wrote them. */
import { didYouMean } from "./near-words.js";
import { shownValue } from "./shown-value.js";

/** @throws TypeError naming the option, what was found and what is wanted */
export function checkOneOf<T extends string | boolean>(option: string, value: T, choices: readonly T[]): T {
  if (choices.includes(value)) return value;
  const wanted = choices.map((choice) => JSON.stringify(choice)).join(" or ");
  const meant = typeof value === "string" ? didYouMean(value, choices.map(String)) : "";
  throw new TypeError(`${option} must be ${wanted}, not ${shownValue(value)}${meant === "" ? "" : `.${meant}`}`);
}
