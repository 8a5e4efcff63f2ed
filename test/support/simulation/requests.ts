/** Chooses a client's next request: mostly sensible, sometimes not. */
import { controlByteLength } from "../../../src/ring/channel-layout.js";
import type { ChannelContent } from "../../../src/wire/channel-content.js";
import type { Descriptor } from "../../../src/wire/descriptor.js";
import type { Replace, Request, Sharing } from "../../../src/wire/messages.js";
import {
  awaitingTimeline,
  channelOf,
  gpuArray,
  hostArray,
  hostBundle,
  legacyArray,
  timelineDescriptor,
} from "../messages.js";
import type { Random } from "../random.js";
import type { Client, HeldLease, Packet, SimulatedProcess } from "./client.js";
import { USERS } from "./plan.js";
import type { Held, World } from "./world.js";

/** What clients know of each other: names, and numbers of other clients. */
export interface Surroundings {
  readonly random: Random;
  readonly world: World;
  readonly names: readonly string[];
  /** A session of another process. */
  readonly foreignSession: (process: SimulatedProcess) => number | undefined;
}

const POOLED = {
  pool: "01234567-89ab-4def-8123-456789abcdef",
  maxBytes: 4096,
  data: `${"A".repeat(86)}==`,
};
const hostPool: Descriptor = { ...hostArray, mechanism: "pool", pooled: POOLED };
const kinds: readonly Descriptor[] = [
  hostArray,
  hostArray,
  hostBundle(1, 200),
  gpuArray,
  { ...gpuArray, content: { kind: "bundle", arrayCount: 1, indexByteLength: 200 } },
  timelineDescriptor,
  awaitingTimeline,
  awaitingTimeline,
  hostPool,
  { ...hostPool, device: gpuArray.device },
  legacyArray,
  { ...legacyArray, device: hostArray.device },
  ...(["end", "wait"] as const).flatMap((whenWriterGone) => [
    channelOf({ whenWriterGone }),
    channelOf({ whenWriterGone }),
  ]),
  {
    ...channelOf({ whenWriterGone: "wait", readersMax: 1 }),
    device: gpuArray.device,
    mechanism: "vmm",
  },
];
const BAD_NAMES = ["", "a/b", "x".repeat(256), "ä"];
const head = { v: 1 } as const;

export function nextPacket(client: Client, around: Surroundings): Packet {
  const { random } = around;
  if (client.phase === "connected")
    return {
      message: random.chance(0.97) ? hello(client, around) : other(client, around),
      held: [],
    };
  if (client.phase === "restoring" && random.chance(0.8)) return restore(client, around);
  const dice = random.below(1000);
  const id = client.nextId();
  if (client.isUpToDate) return { message: changes(id, client, random), held: [] };
  // WHY: a client without leases can neither publish nor release.
  if (dice < 190 || (dice < 350 && client.held.size === 0)) return create(id, around);
  if (dice < 350)
    return {
      message: { ...head, id, op: "publish", object: objectOfOwner(client, random) },
      held: [],
    };
  if (dice < 610 || (dice < 870 && client.held.size === 0))
    return { message: open(id, around), held: [] };
  if (dice < 680)
    return {
      message: { ...head, id, op: "cancel", request: requestToCancel(client, random) },
      held: [],
    };
  if (dice < 900)
    return {
      message: { ...head, id, op: "release", lease: leaseToRelease(client, random) },
      held: [],
    };
  if (dice < 930) return { message: removal(id, client, around), held: [] };
  if (dice < 940)
    return {
      message: { ...head, id, op: "drain", object: objectOfOwner(client, random) },
      held: [],
    };
  if (dice < 960) return { message: { ...head, id, op: "inspect", name: name(around) }, held: [] };
  if (dice < 975) return { message: { ...head, id, op: "status" }, held: [] };
  if (dice < 980) return restore(client, around);
  if (dice < 988) return { message: changes(id, client, random), held: [] };
  const message = other(client, around);
  // WHY not with "bye": the client has already forgotten what it holds.
  const brings = message.op !== "bye" && random.chance(0.1);
  return { message, held: brings ? [{ file: around.world.file(), writable: true }] : [] };
}

function hello(client: Client, { random, foreignSession }: Surroundings): Request {
  // WHY only without leases: a client that tries a foreign session would lose its own.
  const strays = client.held.size === 0 && random.chance(0.1);
  const session = strays ? foreignSession(client.process) : client.session;
  const resume = session === undefined ? {} : { resume: { session } };
  return {
    ...head,
    id: client.nextId(),
    op: "hello",
    client: { version: "1", program: "simulated" },
    ...resume,
  };
}

function other(client: Client, around: Surroundings): Request {
  const { random, foreignSession } = around;
  const id = client.nextId();
  const dice = random.below(100);
  if (dice < 10)
    return {
      ...head,
      id,
      op: "list",
      ...(random.chance(0.5) ? { after: name(around) } : {}),
      ...(random.chance(0.3) ? { nameless: true } : {}),
    };
  if (dice < 20)
    return {
      ...head,
      id,
      op: "clients",
      ...(random.chance(0.5) ? { after: 1 + random.below(1000) } : {}),
    };
  if (dice < 70) {
    client.forgetAll();
    return { ...head, id, op: "bye" };
  }
  if (dice < 71) return { ...head, id, op: "stop", force: random.chance(0.1) };
  if (dice < 72) return { ...head, id, op: "restart" };
  if (dice < 78) {
    const session = random.chance(0.9) ? foreignSession(client.process) : random.below(1000);
    return { ...head, id, op: "disconnect", session: session || 1 };
  }
  if (dice < 90) return restored(client, id);
  return hello(client, around);
}

function changes(id: number, client: Client, random: Random): Request {
  const since = random.chance(0.1) ? random.below(1000) : client.changesNext;
  const begins = since === undefined || random.chance(0.1);
  const wait = client.isUpToDate || random.chance(0.2);
  client.isUpToDate = false;
  return { ...head, id, op: "changes", ...(begins ? {} : { since }), ...(wait ? { wait } : {}) };
}

function name({ random, names }: Surroundings): string {
  return random.chance(0.005) ? random.pick(BAD_NAMES) : random.pick(names);
}

function open(id: number, around: Surroundings): Request {
  const { random } = around;
  const role = random.chance(0.4)
    ? random.pick(["reader", "reader", "observer", "writer"] as const)
    : undefined;
  const own =
    role === undefined || random.chance(0.02)
      ? undefined
      : role === "writer"
        ? "read-write"
        : "read";
  const access = own ?? (random.chance(0.6) ? "read" : "read-write");
  const asRole = role === undefined ? {} : { role };
  return {
    ...head,
    id,
    op: "open",
    name: name(around),
    access,
    wait: random.chance(0.7),
    ...asRole,
  };
}

function create(id: number, around: Surroundings): Packet {
  const { random } = around;
  const descriptor = random.pick(kinds);
  const lifetime = random.chance(0.2) ? "pinned" : "held";
  const sharing: Sharing = {
    with: random.pick(["private", "group", "all"]),
    access: random.pick(["read", "read-write"]),
  };
  const shared = random.chance(0.7) ? { sharing } : {};
  const message: Request = {
    ...head,
    id,
    op: "create",
    name: name(around),
    lifetime,
    descriptor,
    ...shared,
    ...(random.chance(0.3) ? { replace: replaced(random) } : {}),
    ...(random.chance(0.1) ? { workers: workers(random) } : {}),
  };
  const held = memoryFor(descriptor, around);
  if (random.chance(0.01)) held.push({ file: around.world.file(), writable: true });
  return { message, held };
}

function workers(random: Random): number[] {
  return USERS.filter(() => random.chance(0.5));
}

function replaced(random: Random): Replace {
  const kind = random.pick([true, "any"] as const);
  return random.chance(0.1) ? 1 + random.below(1000) : kind;
}

function memoryFor(
  { content, device, mechanism }: Descriptor,
  { random, world }: Surroundings,
): Held[] {
  const spoiled = random.chance(0.02);
  const byteLength = spoiled ? random.pick([100, 2 ** 30]) : 4096;
  const size = { sizeSealed: !(spoiled && random.chance(0.5)), byteLength };
  const facts = { ...size, sealsClosed: random.chance(0.98), othersMayWrite: random.chance(0.1) };
  const reopenable = random.chance(0.8);
  const memory = {
    file: world.file({ ...facts, reopenable }),
    writable: random.chance(0.95),
  };
  if (mechanism === "pool" && device.kind === "host") {
    // One pool has the memory of several objects.
    if (random.chance(0.5)) memory.file = world.poolFile ?? memory.file;
    world.poolFile = memory.file;
  }
  if (content.kind === "channel")
    return [memory, ...wordsFor(content, { random, world } as Surroundings)];
  if (content.kind !== "bundle") return [memory];
  return [
    memory,
    { file: world.file({ byteLength: random.chance(0.98) ? 200 : 199 }), writable: false },
  ];
}

function wordsFor(content: ChannelContent, { random, world }: Surroundings): Held[] {
  const file = (byteLength: number): Held => {
    const spoiled = random.chance(0.003);
    const facts = { sealsClosed: random.chance(0.997), othersMayWrite: random.chance(0.01) };
    const reopenable = random.chance(0.8);
    return {
      file: world.file({ byteLength: byteLength + (spoiled ? 1 : 0), ...facts, reopenable }),
      writable: random.chance(0.995),
    };
  };
  const bell = (): Held => ({
    file: world.file({ isBell: random.chance(0.998), byteLength: 0, sizeSealed: false }),
    writable: true,
  });
  const places = Array.from({ length: content.readersMax }, () => [file(4096), bell()]);
  return [file(controlByteLength(content)), bell(), ...places.flat()];
}

/** Some have the number of an object, which often is not the one with the name. */
function removal(id: number, client: Client, around: Surroundings): Request {
  const only = around.random.chance(0.3) ? { object: objectOfOwner(client, around.random) } : {};
  return { ...head, id, op: "remove", name: name(around), ...only };
}

function objectOfOwner(client: Client, random: Random): number {
  const owned = [...client.held.values()].filter(({ kind }) => kind === "owner");
  const all = owned.length > 0 && random.chance(0.95) ? owned : [...client.held.values()];
  return all.length === 0 ? 1 + random.below(1000) : random.pick(all).object;
}

function requestToCancel(client: Client, random: Random): number {
  for (const [id, { message }] of client.sent)
    if (message.op === "open" && random.chance(0.5)) return id;
  return 1 + random.below(100);
}

/**
 * Chooses a lease, and forgets it at once. WHY at once: if the reply is lost, the client must not
 * restore it.
 */
function leaseToRelease(client: Client, random: Random): number {
  const any = client.held.size === 0 || random.chance(0.02);
  const lease = any ? 1 + random.below(1000) : random.pick([...client.held.keys()]);
  const released = client.held.get(lease);
  // Here the writer closes the channel itself.
  const [memory, control] = released?.role === "writer" ? released.memory : [];
  const closes = memory !== undefined && random.chance(0.3);
  if (closes && control !== undefined) control.file.closed = true;
  else if (closes) memory.file.ended = true;
  client.held.delete(lease);
  client.toRestore = client.toRestore.filter((id) => id !== lease);
  return lease;
}

function restore(client: Client, around: Surroundings): Packet {
  const id = client.nextId();
  const lease = client.toRestore.pop();
  const held = client.held.get(lease ?? -1);
  if (held === undefined) {
    return { message: restored(client, id), held: [] };
  }
  const message: Request = { ...head, id, op: "restore", lease: held.lease };
  return { message, held: broughtBack(held, around) };
}

/** The hub releases all leases that were not restored before this message. */
function restored(client: Client, id: number): Request {
  // WHY all without a reply to "hello": the hub may have resumed the session without the client's
  // knowledge.
  if (client.phase === "connected") client.held.clear();
  for (const lease of client.toRestore) client.held.delete(lease);
  // WHY these too: the client does not know whether the hub has restored them.
  for (const { message } of client.sent.values())
    if (message.op === "restore") client.held.delete(message.lease);
  client.toRestore = [];
  return { ...head, id, op: "restored" };
}

function broughtBack(
  { memory, role }: HeldLease,
  { random, world }: Surroundings,
): readonly Held[] {
  const dice = random.below(100);
  if (dice < (role === "observer" ? 95 : 20)) return [];
  if (dice < 23) return [{ file: world.file(), writable: true }];
  if (dice < 25) return [...memory, ...memory];
  return memory;
}
