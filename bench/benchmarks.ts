/**
 * The benchmarks that compare with C, and their goals. Each name has a loop in bench/actors and one
 * in bench/c.
 */
import type { Benchmark } from "./side-by-side.js";

const PING_PONG = { ratioMax: 1.15 };
const TWO_US = { usMax: 2 };

export const benchmarks: readonly Benchmark[] = [
  {
    name: "timeline-ping-pong",
    roles: ["first", "second"],
    iterations: 20_000,
    rows: {
      "timeline-ping-pong": {
        what: "stream to stream of two processes, round trip",
        goal: PING_PONG,
      },
    },
  },
  {
    name: "signal-to-cpu",
    roles: ["first", "second"],
    iterations: 20_000,
    rows: {
      "signal-to-cpu": { what: "stream to the other's CPU, which replies", goal: PING_PONG },
    },
  },
  {
    name: "event-ping-pong",
    roles: ["first", "second"],
    iterations: 5_000,
    rows: { "event-ping-pong": { what: "event, message and wait, both ways", goal: PING_PONG } },
  },
  {
    name: "pool-alloc-free",
    roles: ["only"],
    iterations: 20_000,
    rows: { "pool-alloc-free": { what: "1 MiB of a pool, allocated and freed", goal: TWO_US } },
  },
  {
    name: "legacy-reopen",
    roles: ["first", "second"],
    iterations: 20_000,
    rows: { "legacy-reopen": { what: "memory by handle, opened again and closed", goal: TWO_US } },
  },
  {
    name: "enqueue",
    roles: ["only"],
    iterations: 20_000,
    rows: {
      "enqueue-signal": { what: "the CPU's time for stream.signal" },
      "enqueue-wait": { what: "the CPU's time for stream.wait" },
      "enqueue-batch-8": { what: "the CPU's time for stream.batch of 8" },
    },
  },
];
