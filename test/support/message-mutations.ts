/**
 * Mutates sample messages: drops, adds and swaps fields, pushes values to their limits, doubles or
 * pads text, and flips, cuts, inserts and repeats bytes. It knows nothing of what messages mean.
 */
import { limits } from "../../src/base/limits.js";
import type { Random } from "./random.js";

/** Names and numbers that exist on the other side, for messages to refer to. */
export interface Vocabulary {
  readonly names: readonly string[];
  readonly numbers: readonly number[];
}

type Place = readonly [holder: Record<string, unknown>, key: string];

const KEYS = [
  "__proto__",
  "constructor",
  "prototype",
  "toString",
  "hasOwnProperty",
  "v",
  "id",
  "op",
  "object",
  "",
  "0",
];

const NUMBERS = [
  0,
  -1,
  1,
  2,
  0.5,
  253,
  2 ** 31,
  2 ** 32,
  2 ** 53 - 1,
  2 ** 53,
  -(2 ** 53),
  1e308,
  -1e308,
  5e-324,
];

const STRINGS = [
  "",
  "\0",
  "__proto__",
  "constructor",
  "..",
  "/",
  "a b",
  "\ud800",
  "\udc00x",
  "\u{1f600}",
  "\u202e",
  "null",
];

/** Texts that replace a value, and that JSON.stringify would never write. */
const RAW = [
  "1e999",
  "-1e999",
  "-0",
  "1.0",
  "10e-1",
  "01",
  "NaN",
  "9007199254740993",
  '"\\ud800"',
  '"\\u0000"',
  '"\ufffe"',
  "undefined",
  `${"[".repeat(2000)}${"]".repeat(2000)}`,
  `${'{"a":'.repeat(2000)}1${"}".repeat(2000)}`,
  `${"[".repeat(32_000)}${"]".repeat(32_000)}`,
  "[".repeat(5000),
];

/** Byte sequences that are not UTF-8, and a byte order mark. */
const BAD_UTF8 = [
  [0xff],
  [0xc0, 0x80],
  [0xed, 0xa0, 0x80],
  [0xf5, 0x80, 0x80, 0x80],
  [0xe2, 0x82],
  [0xef, 0xbb, 0xbf],
];

export class MessageMutations {
  readonly #random: Random;
  readonly #samples: readonly object[];
  readonly #vocabulary: Vocabulary;

  constructor(random: Random, samples: readonly object[], vocabulary: Vocabulary) {
    this.#random = random;
    this.#samples = samples;
    this.#vocabulary = vocabulary;
  }

  /** A message of at most 64 KiB. With `spoil` 0 it is well-formed, with 1 it almost never is. */
  next(spoil: number, sample: object = this.#random.pick(this.#samples)): Uint8Array {
    const random = this.#random;
    const document = JSON.parse(JSON.stringify(sample)) as Record<string, unknown>;
    this.#address(document);
    if (!random.chance(spoil)) return Buffer.from(JSON.stringify(document));
    const way = random.next();
    if (way < 0.02) return Uint8Array.from({ length: random.below(300) }, () => random.below(256));
    if (way < 0.65) {
      for (let count = 1 + random.below(3); count > 0; count -= 1) this.#spoilField(document);
    }
    let text = JSON.stringify(document).replace(
      /"@raw(\d+)@"/g,
      (_, index) => RAW[Number(index)] ?? "",
    );
    if (way > 0.6 && way < 0.8) text = this.#spoilText(text);
    let bytes: Uint8Array = Buffer.from(text);
    if (way >= 0.78) bytes = this.#spoilBytes(bytes);
    return bytes.subarray(0, limits.messageBytesMax);
  }

  /**
   * Makes the message refer to existing names and numbers. Most of those in samples do not exist.
   */
  #address(document: Record<string, unknown>): void {
    const random = this.#random;
    for (const [key, value] of Object.entries(document)) {
      if (key === "v") continue;
      if (typeof value === "number" && this.#vocabulary.numbers.length > 0) {
        document[key] =
          key === "id" || key === "request"
            ? 1 + random.below(50)
            : random.pick(this.#vocabulary.numbers);
      } else if (key === "name" || key === "after")
        document[key] = random.pick(this.#vocabulary.names);
    }
  }

  #spoilField(document: Record<string, unknown>): void {
    const random = this.#random;
    const places = placesOf(document);
    if (places.length === 0) return;
    const [holder, key] = random.pick(places);
    switch (random.below(8)) {
      case 0:
        delete holder[key];
        return;
      case 1:
        put(holder, random.pick(KEYS), this.#oddValue());
        return;
      case 2:
        put(holder, `${key}x`, holder[key]);
        return;
      case 3: {
        // A value from another place: an operation instead of a name, a number instead of a
        // version.
        const other = random.pick(placesOf(random.pick(this.#samples)));
        put(holder, random.chance(0.8) ? key : other[1], structuredClone(other[0][other[1]]));
        return;
      }
      case 4:
        put(holder, key, random.chance(0.5) ? [holder[key]] : { [key]: holder[key] });
        return;
      default:
        put(holder, key, this.#oddValue());
    }
  }

  #oddValue(): unknown {
    const random = this.#random;
    switch (random.below(8)) {
      case 0:
        return random.pick([null, true, false, [], {}, [null], [[]], { kind: "host" }]);
      case 1:
        return random.pick(STRINGS);
      case 2:
        return random.pick(this.#vocabulary.names);
      case 3:
        return random
          .pick(STRINGS.concat("x"))
          .repeat(random.pick([1, 2, 128, 129, random.chance(0.05) ? 60_000 : 256]));
      case 4:
        // WHY the long ones at the end rarely: each costs as much as a hundred others.
        return `@raw${random.below(random.chance(0.05) ? RAW.length : 12)}@`;
      case 5:
        return random.pick(this.#vocabulary.numbers);
      default:
        return random.pick(NUMBERS);
    }
  }

  #spoilText(text: string): string {
    const random = this.#random;
    switch (random.below(7)) {
      case 0:
        return `{"${random.pick(["id", "v", "op", "lease", "name"])}":${random.pick(NUMBERS)},${text.slice(1)}`;
      case 1:
        return `${text.slice(0, -1)},"id":${random.pick(NUMBERS)}}`;
      case 2:
        return text + random.pick(["}", "\0", text, ",", "\n\n", " //", "]"]);
      case 3:
        return random.pick(["[", " ", "\ufeff", "\t\r\n", "(", '"']) + text;
      case 4:
        return random.chance(0.02)
          ? text.padEnd(limits.messageBytesMax, " ")
          : text.padEnd(400, " ");
      case 5:
        return text.replaceAll('"', "'");
      default:
        return text.replace(/"v":1/, `"v":${random.pick(NUMBERS)}`);
    }
  }

  #spoilBytes(bytes: Uint8Array): Uint8Array {
    const random = this.#random;
    const at = random.below(bytes.length + 1);
    const end = Math.min(bytes.length, at + 1 + random.below(8));
    switch (random.below(6)) {
      case 0:
        return bytes.subarray(0, at);
      case 1:
        return Buffer.concat([bytes.subarray(0, at), bytes.subarray(end)]);
      case 2:
        return Buffer.concat([bytes.subarray(0, end), bytes.subarray(at)]);
      case 3:
        return Buffer.concat([
          bytes.subarray(0, at),
          Buffer.from(random.pick(BAD_UTF8)),
          bytes.subarray(at),
        ]);
      case 4: {
        const changed = bytes.slice();
        for (let index = at; index < end; index += 1) changed[index] = random.below(256);
        return changed;
      }
      default: {
        const changed = bytes.slice();
        for (let count = 1 + random.below(3); count > 0 && changed.length > 0; count -= 1) {
          const index = random.below(changed.length);
          changed[index] = (changed[index] ?? 0) ^ (1 << random.below(8));
        }
        return changed;
      }
    }
  }
}

/**
 * WHY not by assignment: a key `__proto__` would change the object's prototype instead of becoming
 * a field.
 */
function put(holder: Record<string, unknown>, key: string, value: unknown): void {
  Object.defineProperty(holder, key, {
    value,
    enumerable: true,
    configurable: true,
    writable: true,
  });
}

function placesOf(node: unknown, places: Place[] = []): Place[] {
  if (typeof node !== "object" || node === null) return places;
  for (const key of Object.keys(node)) {
    places.push([node as Record<string, unknown>, key]);
    placesOf((node as Record<string, unknown>)[key], places);
  }
  return places;
}
