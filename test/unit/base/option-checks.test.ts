import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { checkInteger } from "../../../src/base/bytes.js";
import { Listeners } from "../../../src/base/listeners.js";
import { nearWords } from "../../../src/base/near-words.js";
import {
  aBoolean,
  aString,
  checkShape,
  integer,
  nested,
  oneOf,
  optionsOf,
  waitChecks,
} from "../../../src/base/option-checks.js";
import { shownValue } from "../../../src/base/shown-value.js";

interface Options {
  readonly slots?: number | undefined;
  readonly label: string;
  readonly mode?: string | undefined;
  readonly wait?: boolean | undefined;
  readonly timeoutMs?: number | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly sharing?: { readonly with: string } | undefined;
}

const check = optionsOf<Options>(
  "make()",
  {
    ...waitChecks,
    slots: integer(1, 8),
    label: aString,
    mode: oneOf("wait", "drop-oldest"),
    wait: aBoolean,
    sharing: nested<{ readonly with: string }>(
      { with: oneOf("group", "all") },
      { needs: ["with"] },
    ),
  },
  { needs: ["label"], such: '{ label: "a" }' },
);

function refusal(options: unknown): string {
  try {
    check(options);
  } catch (error) {
    return String(error);
  }
  return "none";
}

describe("optionsOf", () => {
  it("accepts valid options, and undefined ones of any name", () => {
    check({ label: "a" });
    check({ label: "a", slots: undefined, mode: "wait", wait: false, xyz: undefined });
    check({
      label: "a",
      timeoutMs: 0,
      signal: new AbortController().signal,
      sharing: { with: "all" },
    });
    optionsOf<{ readonly wait?: boolean }>("open()", { wait: aBoolean })(undefined);
  });

  it("names the option and the value", () => {
    const cases: readonly (readonly [unknown, string])[] = [
      [undefined, 'TypeError: make() needs options, such as { label: "a" }'],
      [5, 'TypeError: The options of make() must be an object, such as { label: "a" }, not 5'],
      [
        null,
        'TypeError: The options of make() must be an object, such as { label: "a" }, not null',
      ],
      [
        ["a"],
        'TypeError: The options of make() must be an object, such as { label: "a" }, not ["a"]',
      ],
      [{}, 'TypeError: make() needs the option label, such as { label: "a" }'],
      [{ label: 5 }, "TypeError: label must be a string, not 5"],
      [{ label: "a", slots: "4" }, 'TypeError: slots must be an integer from 1 to 8, not "4"'],
      [{ label: "a", slots: 9 }, "RangeError: slots must be an integer from 1 to 8, not 9"],
      [{ label: "a", wait: "no" }, 'TypeError: wait must be true or false, not "no"'],
      [
        { label: "a", mode: "drop" },
        'TypeError: mode must be "wait" or "drop-oldest", not "drop". Did you mean "drop-oldest"?',
      ],
      [
        { label: "a", timeoutMs: "5" },
        'TypeError: timeoutMs must be a number of milliseconds from 0 to Infinity, not "5"',
      ],
      [
        { label: "a", timeoutMs: -1 },
        "RangeError: timeoutMs must be a number of milliseconds from 0 to Infinity, not -1",
      ],
      [{ label: "a", signal: {} }, "TypeError: signal must be an AbortSignal, not {}"],
      [{ label: "a", sharing: "all" }, 'TypeError: sharing must be an object, not "all"'],
      [{ label: "a", sharing: {} }, "TypeError: sharing needs the option with"],
      [
        { label: "a", sharing: { with: 1 } },
        'TypeError: sharing.with must be "group" or "all", not 1',
      ],
    ];
    for (const [options, wanted] of cases) assert.equal(refusal(options), wanted);
  });

  it("refuses an unknown option, and names the one that was meant or all", () => {
    assert.equal(
      refusal({ label: "a", timeout: 5 }),
      'TypeError: make() has no option "timeout". Did you mean "timeoutMs"?',
    );
    assert.equal(
      refusal({ label: "a", slot: 5 }),
      'TypeError: make() has no option "slot". Did you mean "slots"?',
    );
    assert.equal(
      refusal({ label: "a", slot: 5, slots: 2 }),
      'TypeError: make() has no option "slot". Did you mean "slots"?',
    );
    assert.equal(
      refusal({ label: "a", device: "host" }),
      'TypeError: make() has no option "device". ' +
        "It takes: timeoutMs, signal, slots, label, mode, wait, sharing.",
    );
    assert.equal(
      refusal({ label: "a", sharing: { with: "all", also: 1 } }),
      'TypeError: sharing has no option "also". It takes: with.',
    );
  });
});

describe("nearWords", () => {
  it("finds words within two edits or with the same beginning, in any case", () => {
    assert.deepEqual(nearWords("flaot32", ["float16", "float32", "int32"]), ["float32"]);
    assert.deepEqual(nearWords("Float32", ["float32", "int8"]), ["float32"]);
    assert.deepEqual(nearWords("drop", ["wait", "drop-oldest", "drop-newest"]), [
      "drop-oldest",
      "drop-newest",
    ]);
    assert.deepEqual(nearWords("x", ["y", "xy"]), []);
  });
});

describe("shownValue", () => {
  it("shows any value on one short line", () => {
    const cycle: { self?: unknown } = {};
    cycle.self = cycle;
    const shown = [
      "a\nb",
      5n,
      () => 1,
      Symbol("s"),
      null,
      undefined,
      new Map(),
      cycle,
      ["2"],
      Object.create(null),
    ];
    assert.deepEqual(shown.map(shownValue), [
      '"a\\nb"',
      "5n",
      "a function",
      "a symbol",
      "null",
      "undefined",
      "an object of class Map",
      "an object",
      '["2"]',
      "{}",
    ]);
    assert.equal(shownValue("x".repeat(100)).length, 63);
  });
});

describe("checks of one value", () => {
  it("throw TypeError for a wrong type and RangeError for a wrong value", () => {
    assert.throws(
      () => checkInteger("count", "2" as never, 0),
      /^TypeError: count must be an integer at least 0, not "2"/,
    );
    assert.throws(
      () => checkInteger("count", 1.5, 0),
      /^RangeError: count must be an integer at least 0, not 1.5/,
    );
    assert.throws(
      () => checkShape("shape", 6),
      /^TypeError: shape must be an array of integers such as \[2, 3\], not 6/,
    );
    assert.throws(
      () => checkShape("shape", [1, "2"]),
      /^TypeError: shape\[1\] must be an integer, not "2"/,
    );
  });
});

describe("Listeners", () => {
  it("calls each listener until it is removed, also if a function was added twice", () => {
    const listeners = new Listeners<number>();
    const told: number[] = [];
    const listener = (event: number) => void told.push(event);
    const first = listeners.add(listener);
    listeners.add(listener);
    const tell = (event: number) => {
      for (const each of listeners) each(event);
    };
    tell(1);
    first();
    first();
    tell(2);
    assert.deepEqual(told, [1, 1, 2]);
    listeners.clear();
    tell(3);
    assert.deepEqual(told, [1, 1, 2]);
  });

  it("refuses a listener that is not a function", () => {
    const message = "listener must be a function, not undefined";
    assert.throws(() => new Listeners().add(undefined as never), { name: "TypeError", message });
  });
});
