/** Options that are one of a few words, checked where the caller's stack still shows who wrote them. */

/** @throws TypeError naming the option, what was found and what is wanted */
export function checkOneOf<T extends string | boolean>(option: string, value: T, choices: readonly T[]): T {
  if (choices.includes(value)) return value;
  const wanted = choices.map((choice) => JSON.stringify(choice)).join(" or ");
  throw new TypeError(`${option} must be ${wanted}, not ${JSON.stringify(value) ?? String(value)}`);
}
