/**
 * Small messages from machine to machine and back, through two carried channels. Nobody spins: each
 * step wakes a process that sleeps. Then the cost of the two bridges while nothing moves.
 */
import { readFileSync } from "node:fs";
import type { TestMachine } from "../../test/support/machines/test-machine.js";
import { CPrograms } from "../c-programs.js";
import { cpuMs } from "../hub/process-facts.js";
import type { Row } from "../measure.js";
import type { CopySides } from "./arrays.js";
import { relayUs, ucxPerftest } from "./peers.js";
import type { Place } from "./site.js";

const BYTES = 8;
const RATIO_MAX = 1.5;
const LATE = { timeoutMs: 20_000 };
const CHANNEL = { byteLength: BYTES, slots: 16 } as const;
/** The records of the machines in NATS, and the greetings of links. */
const IDLE_CPU_PERCENT_MAX = 1;

export interface MessageOptions {
  readonly roundTrips: number;
  readonly idleMs: number;
}

export async function messages(
  sides: CopySides,
  places: readonly [Place, Place],
  { roundTrips, idleMs }: MessageOptions,
): Promise<Row[]> {
  const { hubOfFrom, hubOfTo, from, to } = sides;
  using ping = await hubOfFrom.createChannel("ping", CHANNEL);
  using pong = await hubOfTo.createChannel("pong", CHANNEL);
  const options = { machine: "any", spinMs: 0, ...LATE } as const;
  using pingHere = await hubOfTo.openChannel("ping", options);
  using pongHere = await hubOfFrom.openChannel("pong", options);
  const echo = async (): Promise<void> => {
    using _received = await pingHere.next(LATE);
    (await pong.loan(LATE)).commit();
  };
  const us: number[] = [];
  for (let trip = 0; trip < roundTrips; trip += 1) {
    const startMs = performance.now();
    const echoed = echo();
    (await ping.loan(LATE)).commit();
    using _answer = await pongHere.next(LATE);
    us.push((performance.now() - startMs) * 1000);
    await echoed;
  }
  us.sort((one, other) => one - other);
  const value = us[roundTrips >> 1] ?? Number.NaN;
  const test = ["-t", "tag_lat", "-s", String(BYTES), "-n", String(roundTrips)];
  const found = await ucxPerftest(places, test);
  const bare = typeof found === "string" ? Number.NaN : 2 * found.p50Us;
  using c = new CPrograms("host");
  const relayed = await relayUs(c, places, roundTrips);
  return [
    {
      what: `round trip of ${BYTES} bytes in C, ucx_perftest tag_lat, event-driven, p50`,
      value: bare,
      unit: "us",
      ...(typeof found === "string" ? { missing: found } : {}),
    },
    {
      what: "the wake-ups of two bridges in C, without their work, p50",
      value: typeof relayed === "string" ? Number.NaN : relayed,
      unit: "us",
      ...(typeof relayed === "string" ? { missing: relayed } : {}),
    },
    {
      what: `round trip of ${BYTES} bytes through two carried channels, p50`,
      value,
      unit: "us",
      ...(Number.isNaN(bare) ? {} : comparison(value / bare)),
    },
    ...(await idle([from, to], idleMs)),
  ];
}

function comparison(ratio: number): Pick<Row, "comparedWith" | "ratio" | "goal" | "met"> {
  const goal = `within ${RATIO_MAX} times UCX in C`;
  return { comparedWith: "UCX in C", ratio, goal, met: ratio <= RATIO_MAX };
}

async function idle(machines: readonly TestMachine[], idleMs: number): Promise<Row[]> {
  const before = machines.map(({ bridgePid }) => spent(bridgePid));
  const startMs = performance.now();
  await new Promise((resolve) => setTimeout(resolve, idleMs));
  const seconds = (performance.now() - startMs) / 1000;
  return machines.flatMap(({ name, bridgePid }, index) => {
    const now = spent(bridgePid);
    const was = before[index] as typeof now;
    const percent = (now.cpuMs - was.cpuMs) / seconds / 10;
    return [
      {
        what: `CPU time of the idle bridge "${name}", two carried channels open`,
        value: percent,
        unit: "%",
        goal: `under ${IDLE_CPU_PERCENT_MAX} %`,
        met: percent < IDLE_CPU_PERCENT_MAX,
      },
      {
        what: `times that it wakes up`,
        value: (now.wakes - was.wakes) / seconds,
        unit: "1/s",
      },
    ];
  });
}

/** Of the main thread, which sleeps between events. */
function spent(pid: number): { readonly cpuMs: number; readonly wakes: number } {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  const wakes = Number(/^voluntary_ctxt_switches:\s+(\d+)$/m.exec(status)?.[1]);
  return { cpuMs: cpuMs(pid), wakes };
}
