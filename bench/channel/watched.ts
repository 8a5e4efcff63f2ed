/**
 * Measures what node:diagnostics_channel costs a message of 64 bytes, on both sides together: with
 * nobody who subscribes, and with a subscriber of each channel. Interleaved rounds. With the
 * variable BEFORE, the path of another build's index.js, that build is measured in turns as well.
 */
import { pathToFileURL } from "node:url";
import { HubProcess } from "../hub/hub-process.js";
import type { Row } from "../measure.js";
import { runTogether } from "../processes.js";
import { actors } from "./programs.js";

export interface WatchedOptions {
  readonly messages: number;
  readonly rounds: number;
}

const FULL_SCALE: WatchedOptions = { messages: 1_000_000, rounds: 11 };
const DOOR = new URL("../../src/bundled/index.js", import.meta.url).href;
const POINTS = ["loan", "commit", "receive", "release"].map((name) => `cuda-ipc:${name}`);

interface Contender {
  readonly what: string;
  readonly door: string;
  readonly watched: string;
  readonly rounds: number[];
}

export async function watchedChannels(options: WatchedOptions = FULL_SCALE): Promise<Row[]> {
  await using hub = await HubProcess.start();
  const contenders = contendersOf(process.env.BEFORE);
  for (let round = 0; round < options.rounds; round += 1) {
    for (const { door, watched, rounds } of contenders) {
      const extra = [hub.socket, door, watched];
      const settings = { device: "host", iterations: options.messages, extra };
      const [measured] = await runTogether(actors("channel-watched", ["first"], settings));
      if (measured !== undefined) rounds.push(measured.us.p50);
    }
  }
  const first = medianOf(contenders[0]?.rounds ?? []);
  return contenders.map(({ what, rounds }, index) => {
    const [value, sorted] = [medianOf(rounds), rounds.toSorted((one, other) => one - other)];
    const spread = `${sorted.at(0)?.toFixed(3)} to ${sorted.at(-1)?.toFixed(3)}`;
    const row = { what: `${what} (${rounds.length} rounds, ${spread})`, value, unit: "us" };
    const comparedWith = contenders[0]?.what ?? "";
    return index === 0 ? row : { ...row, comparedWith, ratio: value / first };
  });
}

function contendersOf(before: string | undefined): Contender[] {
  const now = { door: DOOR, rounds: [] };
  return [
    ...(before === undefined
      ? []
      : [{ what: "before", door: pathToFileURL(before).href, watched: "", rounds: [] }]),
    { ...now, what: "nobody subscribes", watched: "" },
    { ...now, rounds: [], what: "a subscriber of each", watched: POINTS.join(" ") },
  ];
}

function medianOf(rounds: readonly number[]): number {
  const sorted = rounds.toSorted((one, other) => one - other);
  return sorted[Math.floor((sorted.length - 1) / 2)] ?? Number.NaN;
}
