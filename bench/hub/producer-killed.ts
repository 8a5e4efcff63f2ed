/**
 * Kills a producer on a hub with 1000 objects and 100 clients. Measures how long after its pidfd
 * fires its consumers are released and its memory is freed. This process opens that pidfd itself,
 * so it does not depend on the hub.
 */
import { Deadline } from "../../src/base/deadline.js";
import { hasCode } from "../../src/base/errors.js";
import { connect } from "../../src/index.js";
import { openPidfd, ProcessWatch } from "../../src/os/process-watch.js";
import type { Row } from "../measure.js";
import { HelperProcess } from "./helper-process.js";
import { HubProcess } from "./hub-process.js";
import { monotonicMs } from "./monotonic.js";
import { fdCount, memoryFileBytes, sharedMemoryBytes } from "./process-facts.js";

export interface KillOptions {
  /** Objects of other clients, which notice nothing. */
  readonly objects: number;
  readonly clients: number;
  readonly processes: number;
  /** The number of arrays that the producer owns. Consumers also hold half of them. */
  readonly arrays: number;
  readonly arrayBytes: number;
  readonly rounds: number;
}

const MiB = 1024 * 1024;
const FULL_SCALE: KillOptions = {
  objects: 1000,
  clients: 100,
  processes: 2,
  arrays: 64,
  arrayBytes: 2 * MiB,
  rounds: 5,
};

const GOAL_MS = 100;
const LIMIT_MS = 30_000;
const OTHERS_BYTES = 16 * 1024;
const TIMELINE = "progress";
const UNPUBLISHED = "unpublished";

type Member = Awaited<ReturnType<typeof connect>>;

/** Milliseconds after the pidfd fired: */
interface Kill {
  /** until the last of the consumers' waits had ended */
  readonly waitsMs: number;
  /** until the hub had closed all that no other client held */
  readonly memoryMs: number;
  /** until the last waiting open was granted by a successor */
  readonly opensMs: number;
  readonly sharedBytesBack: number;
  /** From the SIGKILL to the pidfd: the kernel's own time for the end of a process. */
  readonly endMs: number;
}

export async function producerKilled(options: KillOptions = FULL_SCALE): Promise<Row[]> {
  await using hub = await HubProcess.start();
  await using observer = await connect({ socket: hub.socket, device: "host", start: false });
  const crowd = Array.from({ length: options.processes }, () => new HelperProcess("crowd"));
  try {
    const clients = options.clients / crowd.length;
    const objectsEach = options.objects / options.clients;
    const order = { socket: hub.socket, clients, objectsEach, byteLength: OTHERS_BYTES };
    await Promise.all(
      crowd.map((it, index) => it.tell("join", { ...order, first: index * clients * objectsEach })),
    );
    const kills: Kill[] = [];
    for (let round = 0; round < options.rounds; round += 1)
      kills.push(await killOnce(hub, observer, crowd, options));
    return rowsOf(kills, options);
  } finally {
    for (const process of crowd) await process[Symbol.asyncDispose]();
  }
}

async function killOnce(
  hub: HubProcess,
  observer: Member,
  crowd: readonly HelperProcess[],
  options: KillOptions,
): Promise<Kill> {
  const fdsBefore = fdCount(hub.pid);
  await using producer = new HelperProcess("doomed-producer");
  const arrays = Array.from({ length: options.arrays }, (_, index) => `frame-${index}`);
  const heldCount = Math.ceil(options.arrays / 2);
  const names = { arrays, unpublished: UNPUBLISHED, timeline: TIMELINE };
  await producer.tell("share", { socket: hub.socket, ...names, bytes: options.arrayBytes });
  const wait = { timeline: TIMELINE, arrays: arrays.slice(0, heldCount), unpublished: UNPUBLISHED };
  await Promise.all(crowd.map((process) => process.tell("waitForProducer", wait)));
  const waiting = Promise.all(crowd.map((process) => process.tell<WaitsEnded>("waitsEnded")));

  // Counted in the hub's own files, because other processes also change the machine's shared
  // memory.
  if (memoryFileBytes(hub.pid) < options.arrays * options.arrayBytes)
    throw new Error("The producer's arrays took no memory, and nothing was measured");
  const sharedWith = sharedMemoryBytes();
  const { killedMs, goneMs } = await killAndWatch(producer);
  // Arrays and the timeline's memory stay, because consumers hold them.
  await until(
    () => fdCount(hub.pid) <= fdsBefore + heldCount + 1,
    "the hub has given back what nobody holds",
  );
  const memoryMs = monotonicMs();
  const sharedBytesBack = sharedWith - sharedMemoryBytes();
  const waits = await waiting;
  for (const { codes } of waits) checkCodes(codes);

  const opening = Promise.all(
    crowd.map((process) => process.tell<{ lastMs: number }>("opensGranted")),
  );
  const successor = await createOnceFree(observer);
  const opensMs = last(await opening);
  successor.close();
  await Promise.all(crowd.map((process) => process.tell("letGo")));
  await until(
    () => fdCount(hub.pid) === fdsBefore,
    "the hub has given back everything of the producer",
  );
  const after = (ms: number) => Math.max(0, ms - goneMs);
  const endMs = goneMs - killedMs;
  return {
    waitsMs: after(last(waits)),
    memoryMs: after(memoryMs),
    opensMs: after(opensMs),
    sharedBytesBack,
    endMs,
  };
}

interface WaitsEnded {
  readonly codes: Readonly<Record<string, number>>;
  readonly lastMs: number;
}

async function killAndWatch(
  producer: HelperProcess,
): Promise<{ killedMs: number; goneMs: number }> {
  const pidfd = openPidfd(producer.pid);
  if (pidfd === undefined) throw new Error("The producer ended before it was killed");
  let watch: ProcessWatch | undefined;
  try {
    const gone = new Promise<number>((resolve) => {
      watch = new ProcessWatch(pidfd, () => resolve(monotonicMs()));
    });
    const killedMs = monotonicMs();
    producer.kill("SIGKILL");
    const goneMs = await new Deadline("see the producer's end", {}, LIMIT_MS).race(gone, () => {});
    return { killedMs, goneMs };
  } finally {
    watch?.close();
  }
}

function checkCodes(codes: Readonly<Record<string, number>>): void {
  const found = Object.keys(codes);
  if (found.length !== 1 || found[0] !== "PEER_GONE")
    throw new Error(`Waits ended in ${JSON.stringify(codes)}`);
}

/**
 * Another client creates and publishes the producer's unpublished array as soon as its name is
 * free.
 */
async function createOnceFree(observer: Member): Promise<Awaited<ReturnType<Member["create"]>>> {
  const endMs = performance.now() + LIMIT_MS;
  for (;;) {
    try {
      const array = await observer.create(UNPUBLISHED, { dtype: "uint8", shape: [OTHERS_BYTES] });
      await array.publish();
      return array;
    } catch (error) {
      if (!hasCode(error, "NAME_TAKEN") || performance.now() > endMs) throw error;
    }
  }
}

async function until(condition: () => boolean, what: string): Promise<void> {
  const endMs = performance.now() + LIMIT_MS;
  while (!condition()) {
    if (performance.now() > endMs) throw new Error(`Timed out after ${LIMIT_MS} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
}

function last(answers: readonly { readonly lastMs: number }[]): number {
  return Math.max(...answers.map(({ lastMs }) => lastMs));
}

function rowsOf(
  kills: readonly Kill[],
  { rounds, objects, clients, arrays, arrayBytes }: KillOptions,
): Row[] {
  const slowest = (pick: (kill: Kill) => number) => Math.max(...kills.map(pick));
  const judged = (what: string, value: number) => {
    return {
      what,
      value,
      unit: "ms",
      goal: `within ${GOAL_MS} ms of its pidfd`,
      met: value < GOAL_MS,
    };
  };
  const scale = `${objects} objects, ${clients} clients, slowest of ${rounds}`;
  const memory = `${((arrays - Math.ceil(arrays / 2)) * arrayBytes) / MiB} MiB`;
  return [
    judged(
      `all waits for its timeline have ended in PEER_GONE, ${scale}`,
      slowest(({ waitsMs }) => waitsMs),
    ),
    judged(
      `its memory that nobody else holds is back, ${scale}`,
      slowest(({ memoryMs }) => memoryMs),
    ),
    {
      what: `the machine's shared memory less by then, where that is ${memory}`,
      value: Math.min(...kills.map(({ sharedBytesBack }) => sharedBytesBack)) / MiB,
      unit: "MiB",
    },
    {
      what: `all opens that waited are granted by another who creates and publishes the name, ${scale}`,
      value: slowest(({ opensMs }) => opensMs),
      unit: "ms",
    },
    {
      what: "from the SIGKILL to its pidfd, slowest",
      value: slowest(({ endMs }) => endMs),
      unit: "ms",
    },
  ];
}
