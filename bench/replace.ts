/** `put` with `replace`, beside `put` under a free name: in turns, on one hub. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect, type SharedArray } from "../src/index.js";
import { type Row, sampleMicroseconds } from "./measure.js";

const SAMPLES = 500;
const ROUNDS = 5;
const RATIO_MAX = 1.1;
const values = new Uint8Array(4096);

export async function replaceCost(device: string): Promise<Row[]> {
  const folder = mkdtempSync(join(tmpdir(), "cuda-ipc-bench-"));
  const hub = await connect({ socket: join(folder, "hub.sock"), device, hubIdleMs: 1000 });
  try {
    let count = 0;
    // Both close the object before. Under a free name that ends it, too.
    let earlier: SharedArray | undefined;
    const once = async (replace: boolean) => {
      count += 1;
      const name = replace ? "replaced" : `free-${count}`;
      const array = await hub.put(name, values, { replace });
      earlier?.close();
      earlier = array;
    };
    const [free, replaced]: [number[], number[]] = [[], []];
    for (let round = 0; round < ROUNDS; round += 1) {
      free.push((await sampleMicroseconds(SAMPLES, () => once(false))).p50);
      replaced.push((await sampleMicroseconds(SAMPLES, () => once(true))).p50);
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
  } finally {
    await hub.stop({ force: true });
    await hub.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

function median(values: readonly number[]): number {
  return [...values].sort((one, other) => one - other)[values.length >> 1] as number;
}
