// A worker thread that holds something of a hub, or uses it, until it ends or is terminated.
import { parentPort, workerData } from "node:worker_threads";
import { connect } from "../../../../src/index.js";

const { socket, stage, index } = workerData as { socket: string; stage: string; index: number };

const hub = await connect({ socket, start: false, device: "host" });

const stages: Record<string, () => Promise<void>> = {
  connect: async () => {},
  hold: async () => {
    const own = await hub.create(`own-${index}`, { dtype: "int32", shape: [1000] });
    await own.write(new Int32Array(1000).fill(index));
    await own.publish();
    const opened = await hub.open(`own-${index}`);
    await hub.createTimeline(`timeline-${index}`);
    const writer = await hub.createChannel(`channel-${index}`, {
      dtype: "int32",
      shape: [4],
      slots: 4,
    });
    const reader = await hub.openChannel(`channel-${index}`);
    held.push(own, opened, writer, reader);
  },
  transfer: async () => {
    const own = await hub.create(`own-${index}`, { dtype: "uint8", shape: [64 * 1024 * 1024] });
    const values = new Uint8Array(64 * 1024 * 1024);
    void (async () => {
      for (;;) await own.write(values);
    })();
  },
  wait: async () => {
    void hub.open(`never-${index}`);
  },
};
const held: unknown[] = [];

parentPort?.on("message", (how) => {
  if (how === "exit") process.exit(0);
  throw new Error("the worker threw");
});
await stages[stage]?.();
parentPort?.postMessage("ready");
