// A client that makes one call on a connection of its own for each hostile vector. For each it says
// how the call ended, what it got, how the next call ended, and how many descriptors are left over.
import { readdirSync } from "node:fs";
import { CudaIpcError } from "../../../../src/base/errors.js";
import { connect } from "../../../../src/client/connect.js";
import type { Hub } from "../../../../src/client/hub.js";
import type { Call } from "../../../docs/vectors/hostile-answers.js";
import { argument, say } from "../../../support/actor-side.js";

/** Longer than any answer takes. */
const LIMIT = { timeoutMs: 60_000 };
const socket = argument(0);
const calls = process.argv.slice(3) as Call[];

const make: Readonly<Record<Call, (hub: Hub) => Promise<string>>> = {
  connect: async () => "",
  array: (hub) => array(hub, "read"),
  "array to write": (hub) => array(hub, "read-write"),
  bundle: async (hub) => {
    using bundle = await hub.openBundle("it", LIMIT);
    return bundle
      .names()
      .map((name) => Buffer.from(name).toString("hex"))
      .join(",");
  },
  timeline: async (hub) => {
    using timeline = await hub.openTimeline("it", LIMIT);
    timeline.read();
    return "";
  },
  reader: async (hub) => {
    using _ = await hub.openChannel("it", LIMIT);
    return "";
  },
  writer: async (hub) => {
    using _ = await hub.resumeChannel("it", LIMIT);
    return "";
  },
  create: async (hub) => {
    using _ = await hub.create("it", { dtype: "int32", shape: [1], ...LIMIT });
    return "";
  },
  list: async (hub) => {
    await hub.list(LIMIT);
    return "";
  },
};

async function array(hub: Hub, access: "read" | "read-write"): Promise<string> {
  using opened = await hub.open("it", { access, ...LIMIT });
  await opened.read();
  return `${opened.dtype} ${opened.shape.join(",")}`;
}

async function outcome(call: Promise<string>): Promise<[string, string]> {
  try {
    return ["OK", await call];
  } catch (error) {
    if (error instanceof CudaIpcError) return [error.code, error.message];
    return [String(error), ""];
  }
}

const openFds = () => readdirSync("/proc/self/fd").length;

/** Descriptors of others are closed in a thread, which may still be at it. */
async function leftOver(before: number): Promise<number> {
  for (let look = 0; openFds() > before && look < 2000; look += 1)
    await new Promise((resolve) => setTimeout(resolve, 1));
  return openFds() - before;
}

let before = 0;
for (const [number, call] of calls.entries()) {
  let hub: Hub | undefined;
  let next = "";
  const join = async () => {
    const options = { start: false, device: "host", reconnect: false, ...LIMIT } as const;
    hub = await connect({ socket, program: `vector ${number}`, ...options });
    return make[call](hub);
  };
  const result = await outcome(join());
  if (hub !== undefined) [next] = await outcome(make.list(hub));
  await hub?.close();
  // The first one has loaded what all need.
  if (number === 0) before = openFds();
  say([...result, next, await leftOver(before)]);
}
