/** `put` with `replace`, beside `put` under a free name: in turns, on one hub. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect, type SharedArray } from "../src/index.js";
import type { Row } from "./measure.js";

const WARM_UP = 50;
const SAMPLES = 2000;
const RATIO_MAX = 1.1;

export async function replaceCost(device: string): Promise<Row[]> {
  const folder = mkdtempSync(join(tmpdir(), "cuda-ipc-bench-"));
  const hub = await connect({ socket: join(folder, "hub.sock"), device, hubIdleMs: 1000 });
  const values = new Uint8Array(4096);
  const open: { [kind: string]: SharedArray | undefined } = {};
  /** Both close the array before, which ends it. */
  const microsecondsOf = async (kind: "free" | "replaced", name: string) => {
    const start = process.hrtime.bigint();
    const array = await hub.put(name, values, { replace: kind === "replaced" });
    open[kind]?.close();
    open[kind] = array;
    return Number(process.hrtime.bigint() - start) / 1000;
  };
  const free: number[] = [];
  const replaced: number[] = [];
  try {
    for (let index = 0; index < WARM_UP + SAMPLES; index += 1) {
      free.push(await microsecondsOf("free", `free-${index}`));
      replaced.push(await microsecondsOf("replaced", "replaced"));
    }
  } finally {
    await hub.stop({ force: true });
    await hub.close();
    rmSync(folder, { recursive: true, force: true });
  }
  const [under, over] = [median(free), median(replaced)];
  const ratio = over / under;
  return [
    { what: "put of 4 KiB under a free name + close, p50", value: under, unit: "us" },
    {
      what: "put of 4 KiB with replace + close of the older, p50",
      value: over,
      unit: "us",
      comparedWith: "free name",
      ratio,
      goal: "costs no more",
      met: ratio <= RATIO_MAX,
    },
  ];
}

function median(samples: readonly number[]): number {
  const sorted = samples.slice(WARM_UP).sort((one, other) => one - other);
  return sorted[sorted.length >> 1] as number;
}
