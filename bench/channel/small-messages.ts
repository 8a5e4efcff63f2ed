/**
 * Measures messages of 64 bytes between two processes on the host device: one way, round trip, and
 * to a sleeping reader. Compares with a C program on the same ring, zeromq over ipc, and Node's
 * messages to a child. Programs that spin use two cores.
 */
import { CPrograms } from "../c-programs.js";
import { HubProcess } from "../hub/hub-process.js";
import type { Row } from "../measure.js";
import {
  type Contender,
  comparedWith,
  figureOf,
  measureInTurns,
  type Outcome,
  type Times,
  valueFrom,
} from "./in-turns.js";
import { actors, inC, throughChannel } from "./programs.js";

export interface SmallMessageOptions {
  readonly messages: number;
  /** The number of messages for the much slower peers. */
  readonly peerMessages: number;
  readonly roundTrips: number;
  readonly peerRoundTrips: number;
  readonly wakes: number;
  readonly rounds: number;
}

const FULL_SCALE: SmallMessageOptions = {
  messages: 2_000_000,
  peerMessages: 100_000,
  roundTrips: 200_000,
  peerRoundTrips: 5000,
  wakes: 2000,
  rounds: 3,
};

const device = "host";
const PER_US_GOAL = 3;
const ROUND_TRIP_GOAL_US = 1;
const WAKE_GOAL_US = 40;
const C_RATIO_MAX = 1.5;
const C_GOAL = `ours within ${C_RATIO_MAX} times C`;

const p50 = (times: Times) => times.p50;
/** Messages per microsecond, which equal millions of messages per second. */
const rate = (times: Times) => 1 / times.mean;

export async function throughput(options: SmallMessageOptions = FULL_SCALE): Promise<Row[]> {
  await using hub = await HubProcess.start();
  using c = new CPrograms(device);
  const { messages, peerMessages, rounds } = options;
  const found = await measureInTurns(
    {
      ours: throughChannel("channel-throughput", hub, { device, iterations: messages }),
      c: inC("channel-throughput", c, { iterations: messages }),
      ...peers("throughput", peerMessages),
    },
    { rounds, by: "mean" },
  );
  const what = "one way, 64 bytes";
  const unit = "million/s";
  const ours = figureOf(found.ours, rate);
  const inCRatio = figureOf(found.c, rate) / ours;
  return [
    {
      what: `${what}, through a channel`,
      ...valueFrom(found.ours, rate),
      unit,
      goal: `at least ${PER_US_GOAL} million a second`,
      met: ours >= PER_US_GOAL,
    },
    {
      what: `${what}, while nothing disturbs it (p50 of 1024)`,
      ...valueFrom(found.ours, (times) => 1 / times.p50),
      unit,
    },
    {
      what: `${what}, the same ring in C`,
      ...valueFrom(found.c, rate),
      unit,
      ...comparedWith("ours", inCRatio),
      goal: C_GOAL,
      met: inCRatio <= C_RATIO_MAX,
    },
    ...peerRows(what, unit, found, (outcome) => {
      const value = valueFrom(outcome, rate);
      return { ...value, ...comparedWith("ours", value.value / ours) };
    }),
  ];
}

export async function roundTrip(options: SmallMessageOptions = FULL_SCALE): Promise<Row[]> {
  await using hub = await HubProcess.start();
  using c = new CPrograms(device);
  const { roundTrips, peerRoundTrips, rounds } = options;
  const found = await measureInTurns(
    {
      ours: throughChannel("channel-round-trip", hub, { device, iterations: roundTrips }),
      c: inC("channel-round-trip", c, { iterations: roundTrips }),
      ...peers("round-trip", peerRoundTrips),
    },
    { rounds, by: "p50" },
  );
  const what = "there and back, 64 bytes, p50";
  const unit = "us";
  const ours = figureOf(found.ours, p50);
  return [
    {
      what: `${what}, through two channels`,
      ...valueFrom(found.ours, p50),
      unit,
      goal: `under ${ROUND_TRIP_GOAL_US} us`,
      met: ours < ROUND_TRIP_GOAL_US,
    },
    timeInC(`${what}, the same rings in C`, found.c, ours),
    ...peerRows(what, unit, found, (outcome) => {
      const value = valueFrom(outcome, p50);
      return { ...value, ...comparedWith("ours", value.value / ours) };
    }),
  ];
}

export async function wake(options: SmallMessageOptions = FULL_SCALE): Promise<Row[]> {
  await using hub = await HubProcess.start();
  using c = new CPrograms(device);
  const { wakes: iterations, rounds } = options;
  const found = await measureInTurns(
    {
      ours: throughChannel("channel-wake", hub, { device, iterations }),
      c: inC("channel-wake", c, { iterations }),
    },
    { rounds, by: "p50" },
  );
  const ours = figureOf(found.ours, p50);
  const goal = { goal: `under ${WAKE_GOAL_US} us`, met: ours < WAKE_GOAL_US };
  return [
    {
      what: "until a reader that slept has the message, p50",
      ...valueFrom(found.ours, p50),
      unit: "us",
      ...goal,
    },
    { what: "the same, p99", ...valueFrom(found.ours, ({ p99 }) => p99), unit: "us" },
    timeInC("until a reader in C that slept has it, p50", found.c, ours),
  ];
}

function timeInC(what: string, outcome: Outcome, ours: number): Row {
  const theirs = figureOf(outcome, p50);
  return {
    what,
    ...valueFrom(outcome, p50),
    unit: "us",
    ...comparedWith("ours", theirs / ours),
    goal: C_GOAL,
    met: ours / theirs <= C_RATIO_MAX,
  };
}

const peerNames = {
  zeromq: "zeromq over ipc",
  json: "Node's process.send (json)",
  advanced: "Node's process.send (advanced)",
} as const;

type Peers = keyof typeof peerNames;

function peers(mode: "throughput" | "round-trip", iterations: number): Record<Peers, Contender> {
  const options = { device, iterations };
  const node = (serialization: string): Contender => ({
    name: `node-${serialization}-${mode}`,
    programs: actors("node-messages", [serialization], { ...options, extra: [mode] }),
  });
  const name = `zeromq-${mode}`;
  const zeromq = { name, programs: actors(name, ["first", "second"], options) };
  return { zeromq, json: node("json"), advanced: node("advanced") };
}

function peerRows(
  what: string,
  unit: string,
  found: Readonly<Record<Peers, Outcome>>,
  figures: (outcome: Outcome) => Pick<Row, "value" | "missing" | "comparedWith" | "ratio">,
): Row[] {
  return (Object.keys(peerNames) as Peers[]).map((key) => ({
    what: `${what}, ${peerNames[key]}`,
    unit,
    ...figures(found[key]),
  }));
}
