/**
 * Measures a hub with 10,000 objects and 200 clients: the cost of opening, its memory, and its CPU
 * time when idle. The clients are connections of four processes, because 200 Node processes would
 * measure the machine instead of the hub. The hub's CPU time is reported beside the client's wait,
 * because other work on the machine hardly changes it.
 */
import { connect } from "../../src/index.js";
import { type Percentiles, type Row, sampleMicroseconds } from "../measure.js";
import { HelperProcess } from "./helper-process.js";
import { HubProcess } from "./hub-process.js";
import { cpuMs, fdCount, proportionalBytes, residentBytes } from "./process-facts.js";

export interface ScaleOptions {
  readonly objects: number;
  readonly clients: number;
  readonly processes: number;
  /** How many opens are measured. */
  readonly samples: number;
  readonly starts: number;
  /** How long the idle hub is observed. */
  readonly idleMs: number;
}

const FULL_SCALE: ScaleOptions = {
  objects: 10_000,
  clients: 200,
  processes: 4,
  samples: 8000,
  starts: 9,
  idleMs: 5000,
};

const MiB = 1024 * 1024;
const WARM_UP = 1000;
/** A few pages each. */
const OBJECT_BYTES = 16 * 1024;
const OPEN_GOAL_US = 2000;
const MEMORY_GOAL_BYTES = 200 * MiB;
/** One tick of the system clock. */
const IDLE_GOAL_MS = 10;

/** The hub to compare with: one client and few objects. */
const SMALL = { objects: 10, clients: 1, processes: 1 };

export async function hubScale(options: ScaleOptions = FULL_SCALE): Promise<Row[]> {
  const startMs = await startTimes(options.starts);
  const small = await smallHub({
    ...options,
    ...SMALL,
    samples: options.samples / options.processes,
  });
  await using hub = await HubProcess.start();
  const idleBefore = await idleCpuMs(hub.pid, options.idleMs);
  const emptyBytes = residentBytes(hub.pid);
  await using observer = await connect({ socket: hub.socket, device: "host", start: false });
  const fdsBefore = fdCount(hub.pid);
  const crowd = startCrowd(options);
  try {
    const createMs = await join(crowd, hub.socket, options);
    const { objects, clients } = await observer.status();
    const scale = `${objects} objects, ${clients} clients`;
    const idleAfter = await idleCpuMs(hub.pid, options.idleMs);
    const status = await sampleMicroseconds(200, async () => void (await observer.status()));
    const list = await sampleMicroseconds(5, async () => void (await observer.list()));
    const one = await openOneAfterTheOther(crowd, hub.pid, options);
    const together = percentiles((await openTogether(crowd, options)).flat());
    const memory = { rss: residentBytes(hub.pid), pss: proportionalBytes(hub.pid) };
    const leaveMs = await leave(crowd, () => fdCount(hub.pid) === fdsBefore);
    return [
      {
        what: `start of an empty hub, until it listens, median of ${options.starts}`,
        value: startMs,
        unit: "ms",
      },
      {
        what: `create + publish, ${scale} in the end, ${options.processes} processes at once`,
        value: (createMs * 1000) / objects,
        unit: "us each",
      },
      ...openRows(scale, one, small),
      ...togetherRows(`${scale}, ${options.processes} processes at once`, together),
      { what: `round trip to the hub (status), ${scale}, p50`, value: status.p50, unit: "us" },
      { what: `list of everything, ${scale}, p50`, value: list.p50 / 1000, unit: "ms" },
      ...memoryRows(scale, emptyBytes, memory),
      ...idleRows(scale, options.idleMs, idleBefore, idleAfter),
      {
        what: "all clients leave, until the hub has closed everything",
        value: leaveMs,
        unit: "ms",
      },
    ];
  } finally {
    await end(crowd);
  }
}

async function smallHub(options: ScaleOptions): Promise<Opens> {
  await using hub = await HubProcess.start();
  const crowd = startCrowd(options);
  try {
    await join(crowd, hub.socket, options);
    return await openOneAfterTheOther(crowd, hub.pid, options);
  } finally {
    await end(crowd);
  }
}

function startCrowd({ processes }: ScaleOptions): HelperProcess[] {
  return Array.from({ length: processes }, () => new HelperProcess("crowd"));
}

async function end(crowd: readonly HelperProcess[]): Promise<void> {
  for (const process of crowd) await process[Symbol.asyncDispose]();
}

async function startTimes(starts: number): Promise<number> {
  const all: number[] = [];
  for (let start = 0; start < starts; start += 1) {
    await using hub = await HubProcess.start();
    all.push(hub.startMs);
  }
  return all.sort((a, b) => a - b)[Math.floor(all.length / 2)] ?? Number.NaN;
}

/** Milliseconds until the slowest process has shared its objects. */
async function join(
  crowd: readonly HelperProcess[],
  socket: string,
  options: ScaleOptions,
): Promise<number> {
  const clients = options.clients / crowd.length;
  const objectsEach = options.objects / options.clients;
  const order = { socket, clients, objectsEach, byteLength: OBJECT_BYTES };
  const joining = crowd.map((it, index) =>
    it.tell<number>("join", { ...order, first: index * clients * objectsEach }),
  );
  return Math.max(...(await Promise.all(joining)));
}

function openOrder({ objects, samples, processes }: ScaleOptions, seed: number) {
  return { objects, samples: samples / processes, seed };
}

async function openOneAfterTheOther(
  crowd: readonly HelperProcess[],
  hubPid: number,
  options: ScaleOptions,
): Promise<Opens> {
  // WHY so long: V8 compiles the hub's code with use, so a less used hub would seem slower.
  const order = openOrder(options, 0);
  for (const it of crowd)
    await it.tell("openAndClose", { ...order, samples: Math.min(WARM_UP, order.samples) });
  const us: number[] = [];
  const cpuBefore = cpuMs(hubPid);
  for (const [index, it] of crowd.entries()) {
    us.push(...(await it.tell<number[]>("openAndClose", openOrder(options, index + 1))));
  }
  return { ...percentiles(us), hubUs: ((cpuMs(hubPid) - cpuBefore) * 1000) / us.length };
}

async function openTogether(
  crowd: readonly HelperProcess[],
  options: ScaleOptions,
): Promise<number[][]> {
  return await Promise.all(
    crowd.map((process, index) =>
      process.tell<number[]>("openAndClose", openOrder(options, 100 + index)),
    ),
  );
}

async function leave(crowd: readonly HelperProcess[], done: () => boolean): Promise<number> {
  const startMs = performance.now();
  await Promise.all(crowd.map((process) => process.tell("leave")));
  while (!done()) {
    if (performance.now() - startMs > LEAVE_LIMIT_MS)
      throw new Error("The hub has more open than before the clients came");
    await pause(1);
  }
  return performance.now() - startMs;
}

const LEAVE_LIMIT_MS = 30_000;

/** CPU time of the idle hub. */
async function idleCpuMs(pid: number, idleMs: number): Promise<number> {
  // The last requests may cause later work, mostly garbage collection.
  await pause(Math.min(1000, idleMs));
  const before = cpuMs(pid);
  await pause(idleMs);
  return cpuMs(pid) - before;
}

function openRows(scale: string, large: Opens, small: Opens): Row[] {
  const how = `${scale}, one after the other`;
  const comparedWith = `that with ${SMALL.objects} objects and ${SMALL.clients} client`;
  const row = (what: string, of: (opens: Opens) => number): Row => {
    return { what, value: of(large), unit: "us", comparedWith, ratio: of(large) / of(small) };
  };
  return [
    row(`open + close, ${how}, p50`, ({ p50 }) => p50),
    {
      ...row(`open + close, ${how}, p99`, ({ p99 }) => p99),
      goal: "p99 under 2 ms",
      met: large.p99 < OPEN_GOAL_US,
    },
    row(`the hub's CPU time for each of them, ${scale}`, ({ hubUs }) => hubUs),
  ];
}

function togetherRows(how: string, { p50, p99 }: Percentiles): Row[] {
  return [
    { what: `open + close, ${how}, p50`, value: p50, unit: "us" },
    { what: `open + close, ${how}, p99`, value: p99, unit: "us" },
  ];
}

function memoryRows(
  scale: string,
  emptyBytes: number,
  { rss, pss }: { rss: number; pss: number },
): Row[] {
  const goal = { goal: "under 200 MiB", met: rss < MEMORY_GOAL_BYTES };
  return [
    { what: "memory of an empty hub (VmRSS)", value: emptyBytes / MiB, unit: "MiB" },
    { what: `memory of the hub (VmRSS), ${scale}`, value: rss / MiB, unit: "MiB", ...goal },
    { what: `memory of the hub (PSS), ${scale}`, value: pss / MiB, unit: "MiB" },
  ];
}

function idleRows(scale: string, idleMs: number, before: number, after: number): Row[] {
  const seconds = `${idleMs / 1000} s`;
  return [
    { what: `CPU time of an empty hub that nobody asks, in ${seconds}`, value: before, unit: "ms" },
    {
      what: `the same, ${scale}`,
      value: after,
      unit: "ms",
      goal: `flat: at most ${IDLE_GOAL_MS} ms more`,
      met: after < before + IDLE_GOAL_MS,
    },
  ];
}

interface Opens extends Percentiles {
  /** The hub's CPU time for one open and close. */
  readonly hubUs: number;
}

function percentiles(values: readonly number[]): Percentiles {
  const sorted = Float64Array.from(values).sort();
  const at = (share: number) => sorted[Math.floor(sorted.length * share)] ?? Number.NaN;
  return { p50: at(0.5), p99: at(0.99) };
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
