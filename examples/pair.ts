/**
 * Examples with two sides, a producer and a consumer. Each is a process, in a terminal of its own
 * if you like. They meet at a path, whichever starts first. Without a role, the program starts both
 * itself, with a path in a temporary folder.
 */
import { rmSync } from "node:fs";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { CudaIpcError, type ErrorCode } from "cuda-ipc";
import { Group } from "cuda-ipc/peer";
import { Child } from "./child.ts";
import { LIMIT, type Options, runRoles, say, temporaryFolder, WrongOption } from "./program.ts";

type Role = (options: Options) => Promise<void>;

interface Pair {
  readonly producer: Role;
  readonly consumer: Role;
  /** Runs if no role is given. By default it starts both sides. */
  readonly parent?: Role;
  /** The sockets that the sides use. By default the path itself. */
  readonly sockets?: (path: string) => readonly string[];
}

/** @param example its `import.meta.url` */
export function runPair(
  example: string,
  defaults: { readonly elements: number },
  { producer, consumer, parent, sockets = (path) => [path] }: Pair,
): Promise<void> {
  return runRoles(defaults, {
    parent: parent ?? ((options) => startBoth(example, options)),
    producer,
    consumer: async (options) => {
      try {
        await consumer(options);
      } catch (error) {
        const isGone = hasCode(error, "PEER_GONE") || hasCode(error, "STALE_HANDLE");
        if (isGone) await removeLeft(sockets(pathOf(options)));
        throw error;
      }
    },
  });
}

/** Where the two sides meet. */
export function pathOf({ role, args: [path] }: Options): string {
  if (path !== undefined && path !== "") return path;
  throw new WrongOption(`the ${role} needs a path or name, the same on both sides`);
}

/** The file beside the path, for a handle. */
export function handleFileOf(options: Options): string {
  return `${pathOf(options)}.json`;
}

/** A path in a folder that is removed when this process ends. */
export function temporaryPath(): string {
  return join(temporaryFolder(), "meet");
}

/**
 * Starts both sides with the same path, and waits until they have ended without an error. If one
 * fails, the other often ends with PEER_GONE. Then this throws the error of the one that failed.
 */
export async function startBoth(
  example: string,
  options: Options,
  path = temporaryPath(),
): Promise<void> {
  using consumer = new Child(example, "consumer", options, { args: [path] });
  using producer = new Child(example, "producer", options, { args: [path] });
  // Each wait of a side has a limit of its own.
  const limitMs = 4 * LIMIT.timeoutMs;
  const sides = [consumer.finished(limitMs), producer.finished(limitMs)];
  try {
    await Promise.all(sides);
  } catch (error) {
    if (!hasCode(error, "PEER_GONE")) throw error;
    const others = (await Promise.allSettled(sides)).filter((side) => side.status === "rejected");
    throw others.find(({ reason }) => !hasCode(reason, "PEER_GONE"))?.reason ?? error;
  }
}

/**
 * Waits for the other side at the path. If it ends later, each wait in the group is PEER_GONE.
 * @throws NAME_TAKEN if another process has this role at the path
 */
export async function meet(options: Options): Promise<Group> {
  const path = pathOf(options);
  const isProducer = options.role === "producer";
  const other = isProducer ? "consumer" : "producer";
  say(`waits for the ${other} at ${path}`);
  let group: Group;
  try {
    group = await Group.join({ path, rank: isProducer ? 0 : 1, size: 2, ...LIMIT });
  } catch (cause) {
    if (hasCode(cause, "NAME_TAKEN")) {
      const found = `another process is the ${options.role} there. Use another path`;
      throw new CudaIpcError("NAME_TAKEN", `Cannot meet at ${path}: ${found}`, { cause });
    }
    if (!hasCode(cause, "TIMEOUT")) throw cause;
    const limit = `${LIMIT.timeoutMs / 1000} s`;
    const found = `no ${other} came within ${limit}. Start it with the same path`;
    throw new CudaIpcError("TIMEOUT", `Cannot meet at ${path}: ${found}`, { cause });
  }
  // Its socket is removed also if this process ends in the middle.
  process.once("exit", () => group.close());
  return group;
}

/**
 * As `meet`, in two steps. Resolves when this producer has the path, with a function that waits
 * for the consumer.
 */
export async function announce(options: Options): Promise<() => Promise<Group>> {
  const meeting = meet(options);
  meeting.catch(() => {});
  // If another producer has the path, the meeting fails at once.
  await Promise.race([meeting, setImmediate()]);
  return () => meeting;
}

/** Waits until the producer has left the group or has died. */
export async function parted(group: Group, options: Options): Promise<void> {
  try {
    await group.barrier(LIMIT);
  } catch (error) {
    if (hasCode(error, "PEER_GONE")) return removeLeft([pathOf(options)]);
    throw error;
  }
  throw new CudaIpcError("VERIFICATION_FAILED", "The other side came to a barrier, wanted its end");
}

/**
 * Removes the sockets of a producer that was killed, and its handle file. What a new producer has
 * there stays.
 */
async function removeLeft(sockets: readonly string[]): Promise<void> {
  for (const path of sockets) {
    try {
      // A group of one claims the path, replaces the stale socket and removes its own.
      using _claim = await Group.join({ path, rank: 0, size: 1 });
      rmSync(`${path}.json`, { force: true });
    } catch {
      // Another process has the path now. The caller reports why this consumer failed.
    }
  }
}

function hasCode(error: unknown, code: ErrorCode): boolean {
  return error instanceof CudaIpcError && error.code === code;
}
