// Allocates from a shareable pool and frees, on one stream. The same loop in C:
// bench/c/pool-alloc-free.c
import { MemoryPool } from "../../src/gpu/memory/memory-pool.js";
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
