/**
 * The keeper restarts a hub with 10,000 objects and 200 clients: on request, and after a kill.
 * Measures the time to the first answer of the next hub, which is also the longest wait of a
 * client.
 */
import { connect } from "../../src/index.js";
import type { Row } from "../measure.js";
import { HelperProcess } from "./helper-process.js";
import { HubProcess } from "./hub-process.js";
import { residentBytes } from "./process-facts.js";

export interface RestartOptions {
  readonly objects: number;
  readonly clients: number;
  readonly processes: number;
}

const FULL_SCALE: RestartOptions = { objects: 10_000, clients: 200, processes: 4 };
const OBJECT_BYTES = 16 * 1024;
const GOAL_MS = 1000;
const LIMIT_MS = 60_000;
const MiB = 1024 * 1024;

type Member = Awaited<ReturnType<typeof connect>>;

export async function restart(options: RestartOptions = FULL_SCALE): Promise<Row[]> {
  await using first = await HubProcess.start();
  const { socket } = first;
  const crowd = Array.from({ length: options.processes }, () => new HelperProcess("crowd"));
  const observer = await connect({ socket, device: "host", start: false });
  try {
    const clients = options.clients / crowd.length;
    const objectsEach = options.objects / options.clients;
    const order = { socket, clients, objectsEach, byteLength: OBJECT_BYTES };
    await Promise.all(
      crowd.map((it, index) => it.tell("join", { ...order, first: index * clients * objectsEach })),
    );
    const askedMs = await untilNextHub(observer, options, async () => {
      await observer.restart();
    });
    const killedMs = await untilNextHub(observer, options, async ({ pid }) => {
      process.kill(pid, "SIGKILL");
    });
    const { keeper } = await observer.status();
    const scale = `${options.objects} objects, ${options.clients} clients`;
    const row = (what: string, value: number) => {
      return {
        what: `${what}, ${scale}`,
        value,
        unit: "ms",
        goal: "under 1 s",
        met: value < GOAL_MS,
      } as const;
    };
    return [
      row("hub restart, to the first answer of the next hub", askedMs),
      row("the hub is killed, to the first answer of the next hub", killedMs),
      {
        what: `keeper, resident, ${scale}`,
        value: residentBytes(keeper?.pid ?? 0) / MiB,
        unit: "MiB",
      },
    ];
  } finally {
    for (const process of crowd) await process[Symbol.asyncDispose]();
    await observer.close();
  }
}

/** Milliseconds from `act` until a client gets an answer of the next hub, which has all objects. */
async function untilNextHub(
  observer: Member,
  { objects }: RestartOptions,
  act: (before: Awaited<ReturnType<Member["status"]>>) => Promise<void>,
): Promise<number> {
  const before = await observer.status();
  const startMs = performance.now();
  await act(before);
  for (;;) {
    const answer = await observer.status();
    const tookMs = performance.now() - startMs;
    if (answer.instance !== before.instance) {
      if (answer.objects !== objects)
        throw new Error(`The next hub has ${answer.objects} objects, wanted ${objects}`);
      return tookMs;
    }
    if (tookMs > LIMIT_MS) throw new Error(`No other hub answered within ${LIMIT_MS} ms`);
  }
}
