/** Measures idle channels: the CPU time of a process with writers and of one with readers. */
import { HelperProcess } from "../hub/helper-process.js";
import { HubProcess } from "../hub/hub-process.js";
import { cpuMs } from "../hub/process-facts.js";
import type { Row } from "../measure.js";

export interface IdleOptions {
  readonly channels: number;
  /** How long the idle channels are watched. */
  readonly idleMs: number;
}

const FULL_SCALE: IdleOptions = { channels: 16, idleMs: 2000 };
/** Node's own background work stays below this. */
const GOAL_PERCENT = 0.5;
const ARRIVAL_LIMIT_MS = 10_000;

export async function idleChannels({ channels, idleMs }: IdleOptions = FULL_SCALE): Promise<Row[]> {
  await using hub = await HubProcess.start();
  await using writer = new HelperProcess("channel-idler");
  await using reader = new HelperProcess("channel-idler");
  const order = { socket: hub.socket, channels };
  await writer.tell("write", order);
  await reader.tell("read", order);
  // Each channel carries a message once, and is idle afterwards.
  await sendThroughAll(writer, reader, channels);
  await pause(idleMs / 4);
  const pids = { writers: writer.pid, readers: reader.pid, hub: hub.pid };
  const before = Object.values(pids).map(cpuMs);
  const startMs = performance.now();
  await pause(idleMs);
  const watchedMs = performance.now() - startMs;
  const percent = Object.values(pids).map(
    (pid, i) => (100 * (cpuMs(pid) - (before[i] as number))) / watchedMs,
  );
  await sendThroughAll(writer, reader, 2 * channels);
  return Object.keys(pids).map((who, i) => {
    const value = percent[i] as number;
    const what = `CPU time, ${channels} idle channels, ${who === "hub" ? "their hub" : `a process with their ${who}`}`;
    return {
      what,
      value,
      unit: "%",
      goal: `0 % (under ${GOAL_PERCENT})`,
      met: value < GOAL_PERCENT,
    };
  });
}

async function sendThroughAll(
  writer: HelperProcess,
  reader: HelperProcess,
  wanted: number,
): Promise<void> {
  await writer.tell("send");
  const endMs = performance.now() + ARRIVAL_LIMIT_MS;
  while ((await reader.tell<number>("received")) < wanted) {
    if (performance.now() > endMs) throw new Error(`Fewer than ${wanted} messages came`);
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
