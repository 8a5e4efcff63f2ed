/**
 * A hub with 10,000 objects and 200 clients is killed. Measured from the start of the next hub's process to the first request that it
 * answers.
 */
import { connect } from "../../src/index.js";
import type { Row } from "../measure.js";
import { HelperProcess } from "./helper-process.js";
import { HubProcess } from "./hub-process.js";

export interface RestartOptions {
  readonly objects: number;
  readonly clients: number;
  readonly processes: number;
}

const FULL_SCALE: RestartOptions = { objects: 10_000, clients: 200, processes: 4 };
const OBJECT_BYTES = 16 * 1024;

export async function restart(options: RestartOptions = FULL_SCALE): Promise<Row[]> {
  await using first = await HubProcess.start();
  const { socket } = first;
  const crowd = Array.from({ length: options.processes }, () => new HelperProcess("crowd"));
  try {
    const clients = options.clients / crowd.length;
    const objectsEach = options.objects / options.clients;
    const order = { socket, clients, objectsEach, byteLength: OBJECT_BYTES };
    await Promise.all(crowd.map((it, index) => it.tell("join", { ...order, first: index * clients * objectsEach })));
    await first.kill();
    const startMs = performance.now();
    await using _next = await HubProcess.start({ socket });
    const next = await connect({ socket, device: "host", start: false });
    const known = await next.status();
    const recoveredMs = performance.now() - startMs;
    checkCount(known.objects, options);
    await next.close();
    const scale = `${options.objects} objects, ${options.clients} clients`;
    return [
      {
        what: `after a crash, from the start of the next hub to its first answer, ${scale}`,
        value: recoveredMs,
        unit: "ms",
      },
    ];
  } finally {
    for (const process of crowd) await process[Symbol.asyncDispose]();
  }
}

function checkCount(found: number, { objects }: RestartOptions): void {
  if (found !== objects) throw new Error(`The next hub has ${found} objects, wanted ${objects}`);
}
