/**
 * Measures the client in C: opening a published array next to the least that it takes, and a
 * channel next to the loop of bench/c over the same ring.
 */
import { CPrograms } from "./c-programs.js";
import {
  comparedWith,
  figureOf,
  measureInTurns,
  type Times,
  valueFrom,
} from "./channel/in-turns.js";
import { inC } from "./channel/programs.js";
import { HubProcess } from "./hub/hub-process.js";
import type { Row } from "./measure.js";

const OPEN_RATIO_MAX = 1.2;

export interface CClientOptions {
  readonly opens: number;
  readonly messages: number;
  readonly rounds: number;
}

const FULL_SCALE: CClientOptions = { opens: 5000, messages: 5_000_000, rounds: 3 };

const p50 = (times: Times) => times.p50;
/** Messages per microsecond, which equal millions of messages per second. */
const rate = (times: Times) => 1 / times.mean;

export async function cClient(
  device: string,
  options: CClientOptions = FULL_SCALE,
): Promise<Row[]> {
  await using hub = await HubProcess.start();
  return [...(await opens(device, hub, options)), ...(await messages(hub, options))];
}

async function opens(
  device: string,
  hub: HubProcess,
  { opens: iterations, rounds }: CClientOptions,
): Promise<Row[]> {
  using c = new CPrograms(device);
  const env = { CUDA_IPC_SOCKET: hub.socket };
  const by = (extra: string) => inC("client-open", c, { iterations, env, extra: [extra] });
  const contenders = { client: by("client"), floor: by("floor") };
  const found = await measureInTurns(contenders, { rounds, by: "p50" });
  const ratio = figureOf(found.client, p50) / figureOf(found.floor, p50);
  const what = "open 1 MiB by name, p50";
  return [
    {
      what: `${what}, client in C`,
      ...valueFrom(found.client, p50),
      unit: "us",
      ...comparedWith("the least", ratio),
      goal: `within ${OPEN_RATIO_MAX} times the least`,
      met: ratio <= OPEN_RATIO_MAX,
    },
    {
      what: `${what}, the least: one round trip and a mapping`,
      ...valueFrom(found.floor, p50),
      unit: "us",
    },
  ];
}

async function messages(
  hub: HubProcess,
  { messages: iterations, rounds }: CClientOptions,
): Promise<Row[]> {
  using c = new CPrograms("host");
  const env = { CUDA_IPC_SOCKET: hub.socket };
  const contenders = {
    client: inC("client-throughput", c, { iterations, env }),
    loop: inC("channel-throughput", c, { iterations }),
  };
  const found = await measureInTurns(contenders, { rounds, by: "mean" });
  const ratio = figureOf(found.client, rate) / figureOf(found.loop, rate);
  return [
    {
      what: "one way, 64 bytes, client in C",
      ...valueFrom(found.client, rate),
      unit: "million/s",
      ...comparedWith("the loop of bench/c", ratio),
      goal: "at least what the loop of bench/c reaches",
      met: ratio >= 1,
    },
    {
      what: "one way, 64 bytes, the loop of bench/c",
      ...valueFrom(found.loop, rate),
      unit: "million/s",
    },
  ];
}
