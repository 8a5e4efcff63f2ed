/** Tries NATS for real: writes a key that ends by itself, reads it and removes it. */
import { randomBytes } from "node:crypto";
import type { Deadline } from "../../base/deadline.js";
import { CudaIpcError } from "../../base/errors.js";
import { NatsStore } from "./nats-store.js";

const TTL_MS = 5000;

/** @throws ENGINE_NOT_FOUND, NATS_UNAVAILABLE, TIMEOUT */
export async function probeNats(
  url: string,
  deadline: Deadline,
): Promise<{ readonly version: string; readonly roundTripMs: number }> {
  const options = { url, bucket: "cuda-ipc-doctor", token: process.env.CUDA_IPC_NATS_TOKEN };
  const store = await NatsStore.connect(options, "cuda-ipc doctor", deadline, () => {});
  try {
    const key = `probe.${randomBytes(8).toString("hex")}`;
    const startMs = performance.now();
    const writing = store.create(key, Uint8Array.of(1), { ttlMs: TTL_MS });
    const revision = await deadline.race(writing, () => {});
    const roundTripMs = performance.now() - startMs;
    const entry = await deadline.race(store.read(key), () => {});
    if (revision === undefined || entry?.revision !== revision)
      throw new CudaIpcError("VERIFICATION_FAILED", "Cannot trust NATS: it has not stored a key");
    await deadline.race(store.remove(key, revision), () => {});
    return { version: store.serverVersion, roundTripMs };
  } finally {
    await store.close();
  }
}
