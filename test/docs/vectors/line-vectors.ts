/** The line of a timeline, and the mark of legacy memory, after each thing that happens to them. */
import {
  awaitOwnerInFile,
  type Line,
  lineAt,
  poison,
  poisonFile,
  stateOf,
  storeValue,
  takeOver,
} from "../../../src/base/timeline-line.js";
import { MARK_BYTES, markAt } from "../../../src/wire/legacy-mark.js";
import { HEX_NOTE, hexOf } from "./hex.js";

interface Step {
  readonly step: string;
  readonly lines: readonly string[];
  /** What who looks finds; values are decimal, because they have 63 bits. */
  readonly value: string;
  readonly ended: boolean;
}

const LARGEST = 2n ** 63n - 2n;

function trace(bytes: Uint8Array, line: Line, steps: readonly (readonly [string, () => void])[]) {
  return steps.map(([step, act]): Step => {
    act();
    const { value, ended } = stateOf(line);
    return { step, lines: hexOf(bytes), value: String(value), ended };
  });
}

/** docs/protocol/vectors/lines.json */
export function lineVectors(): object {
  const place = 128;
  const file = new Uint8Array(new SharedArrayBuffer(4096));
  const line = lineAt(new BigInt64Array(file.buffer), place);
  const otherFile = new Uint8Array(new SharedArrayBuffer(4096));
  const other = lineAt(new BigInt64Array(otherFile.buffer), 0);
  const mark = new Uint8Array(new SharedArrayBuffer(MARK_BYTES));
  const nothing = () => undefined;
  const wordsOf = (bytes: Uint8Array, at: number) => ({
    read: (offset: number, into: Uint8Array) =>
      into.set(bytes.subarray(at + offset, at + offset + into.byteLength)),
    write: (offset: number, from: Uint8Array) => bytes.set(from, at + offset),
  });
  const byHub = (bytes: Uint8Array, at: number) => poisonFile(wordsOf(bytes, at));
  const resumed = new Uint8Array(new SharedArrayBuffer(4096));
  const resumedLine = lineAt(new BigInt64Array(resumed.buffer), 0);
  return {
    note: HEX_NOTE,
    timeline: {
      byteOffset: place,
      byteLength: file.byteLength,
      steps: trace(file, line, [
        ["it is new", nothing],
        ["its owner signals 5", () => storeValue(line, 5n)],
        ["its owner signals 2^53 + 1", () => storeValue(line, 2n ** 53n + 1n)],
        ["its owner closes it", () => poison(line)],
        ["the hub ends it again", () => byHub(file, place)],
      ]),
    },
    timelineOfDeadOwner: {
      byteOffset: 0,
      byteLength: otherFile.byteLength,
      steps: trace(otherFile, other, [
        ["its owner signals the largest value", () => storeValue(other, LARGEST)],
        ["its owner dies, and the hub ends it", () => byHub(otherFile, 0)],
      ]),
    },
    timelineOfTwoOwners: {
      byteOffset: 0,
      byteLength: resumed.byteLength,
      steps: trace(resumed, resumedLine, [
        ["its owner signals 5", () => storeValue(resumedLine, 5n)],
        [
          "its owner dies, and the next one is awaited",
          () => void awaitOwnerInFile(wordsOf(resumed, 0)),
        ],
        ["the next owner is there", () => takeOver(resumedLine)],
        ["the next owner signals 6", () => storeValue(resumedLine, 6n)],
      ]),
    },
    mark: {
      byteLength: MARK_BYTES,
      steps: trace(mark, markAt(mark.buffer), [
        ["the owner has the memory", nothing],
        ["the owner ends the mark", () => poison(markAt(mark.buffer))],
        ["the hub ends it again", () => byHub(mark, 0)],
      ]),
    },
  };
}
