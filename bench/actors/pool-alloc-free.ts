// Allocates from a pool that can be shared and frees again, on one stream. The same loop: bench/c/pool-alloc-free.c
import { MemoryPool } from "../../src/gpu/memory-pool.js";
import { finish, openDevice, timeCalls } from "./actor.js";

const MiB = 1024 * 1024;

const device = openDevice();
const stream = device.createStream();
const pool = MemoryPool.create(device, { maxBytes: 64 * MiB, shared: true });
timeCalls(
  "pool-alloc-free",
  () => pool.allocate(MiB, { stream }).close(),
  () => finish(stream),
);
for (const it of [pool, stream, device]) it.close();
