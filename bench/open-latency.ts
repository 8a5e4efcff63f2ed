/** Measures opening a published array by name: round trip, import and mapping, small and large. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect } from "../src/index.js";
import { type Percentiles, type Row, sampleMicroseconds } from "./measure.js";

const SAMPLES = 2000;
const MiB = 1024 * 1024;
const GOAL_US = 500;

export async function openLatency(device: string): Promise<Row[]> {
  const folder = mkdtempSync(join(tmpdir(), "cuda-ipc-bench-"));
  const socket = join(folder, "hub.sock");
  const producer = await connect({ socket, device, hubIdleMs: 1000 });
  const consumer = await connect({ socket, device });
  try {
    const small = await measure(producer, consumer, "small", MiB);
    const large = await measure(producer, consumer, "large", 1024 * MiB);
    const status = await sampleMicroseconds(SAMPLES, async () => void (await consumer.status()));
    return [
      { what: "round trip to the hub (status), p50", value: status.p50, unit: "us" },
      ...rows("1 MiB", small),
      ...rows("1 GiB", large),
      {
        what: "open + close, 1 GiB against 1 MiB, p50",
        value: large.p50,
        unit: "us",
        comparedWith: "1 MiB",
        ratio: large.p50 / small.p50,
      },
    ];
  } finally {
    await consumer.close();
    await producer.stop({ force: true });
    await producer.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

type Connected = Awaited<ReturnType<typeof connect>>;

async function measure(
  producer: Connected,
  consumer: Connected,
  name: string,
  byteLength: number,
): Promise<Percentiles> {
  using array = await producer.create(name, { dtype: "uint8", shape: [byteLength] });
  await array.publish();
  // Each array is closed again, so that no open is served from the import cache.
  return await sampleMicroseconds(SAMPLES, async () => {
    const opened = await consumer.open(name);
    opened.close();
  });
}

function rows(size: string, { p50, p99 }: Percentiles): Row[] {
  return [
    {
      what: `open + close by name, ${size}, p50`,
      value: p50,
      unit: "us",
      goal: "p50 under 0.5 ms",
      met: p50 < GOAL_US,
    },
    { what: `open + close by name, ${size}, p99`, value: p99, unit: "us" },
  ];
}
