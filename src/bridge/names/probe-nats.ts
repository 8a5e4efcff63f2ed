/**
 * Tries NATS for real: writes a key that ends by itself, reads it and removes it. WHY in the bucket
 * of bridges, which ignore it: a login may be allowed to use no other.
 */
import { randomBytes } from "node:crypto";
import type { Deadline } from "../../base/deadline.js";
import { CudaIpcError } from "../../base/errors.js";
import type { NatsOptions } from "./nats-options.js";
import { NatsStore } from "./nats-store.js";

const TTL_MS = 5000;

/** @throws ENGINE_NOT_FOUND, NATS_UNAVAILABLE, TIMEOUT */
export async function probeNats(
  options: NatsOptions,
  deadline: Deadline,
): Promise<{ readonly version: string; readonly roundTripMs: number }> {
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
