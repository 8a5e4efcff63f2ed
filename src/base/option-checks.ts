/**
 * Checks the options of a public call by one table. An unknown option is refused, because most are
 * misspelt. Errors name the option and show what was found.
 * @example
 * const checkOptions = optionsOf<OpenOptions>("open()", { access: oneOf("read", "read-write") });
 */
import { checkInteger } from "./bytes.js";
import { didYouMean } from "./near-words.js";
import { shownValue } from "./shown-value.js";

/** Throws if the value is invalid. It is not called for `undefined`. */
export type Check = (option: string, value: unknown) => void;

/** One check for each option. An option without a check does not compile. */
export type Checks<T extends object> = { readonly [Option in keyof Required<T>]: Check };

export interface NeededOptions<T extends object> {
  readonly needs?: readonly (keyof T & string)[];
  /** An example of valid options, for the message. */
  readonly such?: string;
  /** Options of others are in the same object, and the public call has checked them. */
  readonly amongOthers?: boolean;
}

/** @param call as the message shows it: `create()` */
export function optionsOf<T extends object>(
  call: string,
  checks: Checks<T>,
  { needs = [], such = "", amongOthers = false }: NeededOptions<T> = {},
): (options: unknown) => void {
  const check = tableCheck(call, "", checks, { needs, such, amongOthers });
  return (options) => {
    if (options !== undefined) check(`The options of ${call}`, options);
    else if (such !== "") throw new TypeError(`${call} needs options${exampleOf(such)}`);
  };
}

/** Checks an option that is itself an object of options. Errors name it as `option.name`. */
export function nested<T extends object>(checks: Checks<T>, needed: NeededOptions<T> = {}): Check {
  return (option, value) => tableCheck(option, `${option}.`, checks, needed)(option, value);
}

function tableCheck<T extends object>(
  owner: string,
  prefix: string,
  checks: Checks<T>,
  { needs = [], such = "", amongOthers = false }: NeededOptions<T>,
): Check {
  const known = new Map<string, Check>(Object.entries(checks));
  const example = exampleOf(such);
  return (what, options) => {
    checkObject(what, options, example);
    // WHY not Object.entries: messages of channels have options, and it would allocate.
    for (const option in options) {
      const value = (options as Record<string, unknown>)[option];
      if (value === undefined) continue;
      const check = known.get(option);
      if (check === undefined && amongOthers) continue;
      if (check === undefined) throw unknownOption(owner, option, [...known.keys()]);
      check(prefix === "" ? option : prefix + option, value);
    }
    for (const option of needs) {
      if ((options as T)[option] !== undefined) continue;
      throw new TypeError(`${owner} needs the option ${option}${example}`);
    }
  };
}

function exampleOf(such: string): string {
  return such === "" ? "" : `, such as ${such}`;
}

function unknownOption(owner: string, option: string, known: readonly string[]): TypeError {
  const meant = didYouMean(option, known) || ` It takes: ${known.join(", ")}.`;
  return new TypeError(`${owner} has no option ${JSON.stringify(option)}.${meant}`);
}

/** @throws TypeError */
export function checkObject(what: string, value: unknown, such = ""): asserts value is object {
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return;
  throw new TypeError(`${what} must be an object${such}, not ${shownValue(value)}`);
}

/** @throws TypeError */
export function checkFunction(what: string, value: unknown): void {
  if (typeof value !== "function")
    throw new TypeError(`${what} must be a function, not ${shownValue(value)}`);
}

/** @throws TypeError, RangeError */
export function checkMilliseconds(what: string, value: unknown): void {
  const wanted = "a number of milliseconds from 0 to Infinity";
  const message = `${what} must be ${wanted}, not ${shownValue(value)}`;
  if (typeof value !== "number") throw new TypeError(message);
  if (!(value >= 0)) throw new RangeError(message);
}

/** @throws TypeError */
export function checkSignal(what: string, value: unknown): void {
  if (value instanceof AbortSignal) return;
  throw new TypeError(`${what} must be an AbortSignal, not ${shownValue(value)}`);
}

/**
 * Checks only the form. The code that uses the shape checks its numbers.
 * @throws TypeError if it is not an array of numbers
 */
export function checkShape(what: string, value: unknown): void {
  if (!Array.isArray(value)) {
    throw new TypeError(
      `${what} must be an array of integers such as [2, 3], not ${shownValue(value)}`,
    );
  }
  for (const [axis, length] of value.entries()) {
    if (typeof length === "number") continue;
    throw new TypeError(`${what}[${axis}] must be an integer, not ${shownValue(length)}`);
  }
}

export const aString: Check = (option, value) => {
  if (typeof value !== "string")
    throw new TypeError(`${option} must be a string, not ${shownValue(value)}`);
};

export const aNumber: Check = (option, value) => {
  if (typeof value !== "number")
    throw new TypeError(`${option} must be a number, not ${shownValue(value)}`);
};

export const aBoolean: Check = (option, value) => {
  checkOneOf(option, value as boolean, [true, false]);
};

export const arrayOfStrings: Check = (option, value) => {
  if (!Array.isArray(value))
    throw new TypeError(`${option} must be an array of strings, not ${shownValue(value)}`);
  for (const [index, each] of value.entries()) aString(`${option}[${index}]`, each);
};

export const anObject: Check = (option, value) => checkObject(option, value);

export function oneOf(...choices: readonly string[]): Check {
  return (option, value) => void checkOneOf(option, value as string, choices);
}

export function integer(min: number, max?: number): Check {
  return (option, value) => void checkInteger(option, value as number, min, max);
}

/** The checks for `WaitOptions`. */
export const waitChecks = { timeoutMs: checkMilliseconds, signal: checkSignal } as const;

/** @throws TypeError, which names the option, the value and the choices */
export function checkOneOf<T extends string | boolean>(
  option: string,
  value: T,
  choices: readonly T[],
): T {
  if (choices.includes(value)) return value;
  const wanted = choices.map((choice) => JSON.stringify(choice)).join(" or ");
  const meant = typeof value === "string" ? didYouMean(value, choices.map(String)) : "";
  throw new TypeError(
    `${option} must be ${wanted}, not ${shownValue(value)}${meant === "" ? "" : `.${meant}`}`,
  );
}
