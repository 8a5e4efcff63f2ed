// One of several users of a hub. Runs its steps in order, prints each result, and waits if a step
// says so.
import { openSync, readSync, writeSync } from "node:fs";
import type { ErrorCode } from "../../../../src/base/error-codes.js";
import { CudaIpcError } from "../../../../src/base/errors.js";
import { connect } from "../../../../src/client/connect.js";
import type { SharingOptions } from "../../../../src/client/hub-options.js";
import { Mapping } from "../../../../src/os/mapping.js";
import type { OwnedFd } from "../../../../src/os/owned-fd.js";
import { argument, say, told } from "../../../support/actor-side.js";
import { RawClient } from "../../../support/raw-client.js";
import { until } from "../../../support/until.js";

const socket = argument(0);
const host = { socket, start: false, device: "host" } as const;
const hubs = [await connect(host)];
const [hub = await connect(host)] = hubs;

const steps: Readonly<Record<string, (...args: never[]) => unknown>> = {
  wait: async () => void (await told()),
  create: async (name: string, sharing?: SharingOptions, byteLength = 16) => {
    const array = await hub.create(name, {
      dtype: "uint8",
      shape: [byteLength],
      sharing,
      lifetime: "pinned",
    });
    await array.write(new Uint8Array(byteLength).fill(7));
    await array.publish();
  },
  createTimeline: async (name: string, sharing: SharingOptions) => {
    (await hub.createTimeline(name, { sharing })).signal(5n);
  },
  createChannel: async (name: string, sharing: SharingOptions) => {
    await hub.createChannel(name, { dtype: "uint8", shape: [8], sharing });
  },
  openTimeline: async (name: string) =>
    String((await hub.openTimeline(name, { wait: false })).value),
  read: async (name: string) => (await (await hub.open(name, { wait: false })).read())[0],
  /** Never answered while no object has this name. */
  awaitName: (name: string) => void hub.open(name).catch(() => {}),
  awaitNames: (name: string) => hub.open(name),
  write: async (name: string) => {
    const array = await hub.open(name, { wait: false, access: "read-write" });
    await array.write(new Uint8Array(array.elementCount).fill(9));
  },
  list: async () =>
    (await hub.list()).map(({ name, ownerUid, sharing }) => ({ name, ownerUid, sharing })),
  inspect: async (name: string) => (await hub.inspect(name)).object.sharing,
  remove: (name: string) => hub.remove(name),
  stop: () => hub.stop({ force: true }),
  restart: async () => {
    using raw = await RawClient.connect(socket);
    const { error } = await raw.ask({ op: "restart" });
    if (error !== undefined) throw new CudaIpcError(error.code as ErrorCode, error.message);
  },
  users: async () => (await hub.status()).users,
  limits: async () => (await hub.status()).limits,
  connectAgain: async () => void hubs.push(await connect(host)),
  pry,
  flood,
};

/** Opens a name for reading without this library, and tries every way to write to it. */
async function pry(name: string): Promise<unknown> {
  using raw = await RawClient.connect(socket);
  raw.send({ op: "open", name, access: "read", wait: false });
  let fds: readonly OwnedFd[] = [];
  await until("the hub answers", () => {
    const packet = raw.socket.tryReceive();
    if (packet === undefined || packet === "end") return false;
    fds = packet.fds;
    return true;
  });
  using fd = fds[0] as OwnedFd;
  const bytes = new Uint8Array(1);
  const tries = {
    reopen: () => openSync(`/proc/self/fd/${fd.number}`, "r+"),
    map: () => Mapping.shared(fd, 4096, "read-write"),
    write: () => writeSync(fd.number, bytes),
    read: () => readSync(fd.number, bytes, 0, 1, 0),
  };
  return Object.fromEntries(
    Object.entries(tries).map(([what, attempt]) => [what, outcomeOf(attempt)]),
  );
}

function outcomeOf(attempt: () => unknown): string {
  try {
    attempt();
    return "done";
  } catch (error) {
    return error instanceof Error && "code" in error ? String(error.code) : String(error);
  }
}

/**
 * Floods the hub until it is killed. Prints its first refusal, and how many refusals came before
 * enough requests were answered.
 */
async function flood(enough: number): Promise<never> {
  const raw = await RawClient.connect(socket);
  const request = (id: number) => Buffer.from(JSON.stringify({ v: 1, id, op: "status" }));
  let [answered, refused] = [0, 0];
  for (let id = 10; ; ) {
    if (raw.socket.trySend(request(id), [])) id += 1;
    const packet = raw.socket.tryReceive();
    if (packet === "end") throw new Error("the hub has hung up");
    if (packet === undefined) {
      await new Promise((resolve) => setImmediate(resolve));
      continue;
    }
    const { error } = JSON.parse(Buffer.from(packet.bytes).toString());
    if (error === undefined) {
      if (refused === 0) continue;
      answered += 1;
      if (answered === enough) say({ answered, refused });
      continue;
    }
    refused += 1;
    if (refused === 1) say({ code: error.code, message: error.message });
  }
}

say("here");
for (const [step, ...args] of JSON.parse(argument(1)) as [string, ...never[]][]) {
  try {
    say({ value: (await steps[step]?.(...args)) ?? null });
  } catch (error) {
    if (!(error instanceof CudaIpcError)) throw error;
    say({ code: error.code, message: error.message });
  }
}
await told();
