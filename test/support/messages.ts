/** Well-formed messages and descriptors, for tests that send or damage them. */
import { memorySlots, whenFullPolicies } from "../../src/ring/channel-layout.js";
import type { ChannelContent } from "../../src/wire/channel-content.js";
import { decodeRequest } from "../../src/wire/codec.js";
import { type Descriptor, fdsOf } from "../../src/wire/descriptor.js";
import type {
  HeldObject,
  Holder,
  ObjectSummary,
  Request,
  ResultOf,
  Sharing,
} from "../../src/wire/messages.js";
import type { SharedMemoryDocument } from "../../src/wire/shared-document.js";

const oneArray = {
  byteLength: 24,
  allocationByteLength: 4096,
  content: {
    kind: "array",
    array: { dtype: "float32", shape: [2, 3], strides: [3, 1], byteOffset: 0 },
  },
} satisfies Partial<Descriptor>;

export const hostArray: Descriptor = {
  version: 1,
  device: { kind: "host" },
  mechanism: "memfd",
  ...oneArray,
};

const gpuPlace = {
  version: 1,
  device: { kind: "cuda", uuid: "GPU-01234567-89ab-cdef-0123-456789abcdef" },
} satisfies Partial<Descriptor>;

export const gpuArray: Descriptor = { ...gpuPlace, mechanism: "vmm", ...oneArray };

/** An array in memory that only its owner keeps alive. */
export const legacyArray: Descriptor = {
  ...gpuPlace,
  mechanism: "legacy",
  legacy: { handle: `${"A".repeat(86)}==` },
  ...oneArray,
};

/** A copy that a bridge made of another machine's array. */
export const replica: Descriptor = { ...hostArray, replicaOf: { machine: "gpu-01", object: 77 } };

export function hostBundle(arrayCount: number, indexByteLength: number): Descriptor {
  return { ...hostArray, content: { kind: "bundle", arrayCount, indexByteLength } };
}

export const sharedArray: SharedMemoryDocument = {
  format: "cuda-ipc",
  version: 1,
  kind: "array",
  exporter: {
    pid: 4242,
    pidNamespace: 4_026_531_836,
    startTicks: 987_654,
    bootId: "01234567-89ab-cdef-0123-456789abcdef",
  },
  access: "read-write",
  descriptor: hostArray,
  fds: {
    socket: "/run/user/1000/cuda-ipc/peer-4242-0123456789ab.sock",
    token: "0123456789abcdef0123456789abcdef",
  },
};

export const timelineDescriptor: Descriptor = {
  ...hostArray,
  byteLength: 4096,
  content: { kind: "timeline", byteOffset: 128 },
};

export const awaitingTimeline: Descriptor = {
  ...hostArray,
  byteLength: 4096,
  content: { kind: "timeline", byteOffset: 128, whenOwnerGone: "wait" },
};

const timelines: readonly Descriptor[] = [
  timelineDescriptor,
  awaitingTimeline,
  {
    ...timelineDescriptor,
    content: { kind: "timeline", byteOffset: 128, whenOwnerGone: "end" },
  },
];

export const channelContent = {
  kind: "channel",
  dtype: "float32",
  shape: [2, 3],
  slots: 4,
  readersMax: 2,
  slotBytes: 24,
  slotStride: 64,
  metaBytesMax: 100,
  whenFull: "wait",
  whenWriterGone: "end",
} as const satisfies Partial<ChannelContent>;

export function channelOf(
  changes: Partial<ChannelContent> = {},
): Descriptor & { content: ChannelContent } {
  const content: ChannelContent = {
    ...channelContent,
    shape: [...channelContent.shape],
    ...changes,
  };
  const byteLength = memorySlots(content) * content.slotStride;
  return { ...hostArray, byteLength, allocationByteLength: byteLength, content };
}

/** One channel of each policy. */
const channels: readonly Descriptor[] = whenFullPolicies.map((whenFull) => {
  return channelOf({ whenFull, whenWriterGone: whenFull === "wait" ? "wait" : "end" });
});

const pooled = {
  pool: "01234567-89ab-4def-8123-456789abcdef",
  maxBytes: 65_536,
  data: `${"A".repeat(86)}==`,
};

export const pooledArray: Descriptor = { ...gpuPlace, mechanism: "pool", pooled, ...oneArray };

/** An array of 4096 bytes in a host pool of this size. */
export function hostPool(maxBytes: number): Descriptor {
  return { ...hostArray, mechanism: "pool", pooled: { ...pooled, maxBytes } };
}

const head = { v: 1, id: 7 } as const;

const sharings: readonly Sharing[] = [
  { with: "private", access: "read" },
  { with: "group", access: "read" },
  { with: "all", access: "read-write" },
  { with: "private", access: "read", machines: true },
  { with: "all", access: "read", machines: false },
];
const sharedFrame = { name: "frame", lifetime: "held", descriptor: hostArray } as const;

/**
 * Requests of each kind, with every field and every choice of the schemas.
 * test/unit/wire/samples.test.ts names what is missing.
 */
export const requests: readonly Request[] = [
  { ...head, op: "hello", client: { version: "1.2.3", program: "test" } },
  { ...head, op: "hello", client: { version: "1.2.3", program: "test" }, resume: { session: 1 } },
  {
    ...head,
    op: "hello",
    client: { version: "1.2.3", program: "test" },
    thread: { tid: 4243, startTicks: 987_654 },
  },
  { ...head, op: "restore", lease: 2 },
  { ...head, op: "restored" },
  { ...head, op: "create", name: "frame", lifetime: "held", descriptor: hostArray },
  ...sharings.map((sharing) => ({ ...head, op: "create" as const, ...sharedFrame, sharing })),
  { ...head, op: "create", name: "frame", lifetime: "pinned", descriptor: hostBundle(3, 200) },
  ...timelines.map((descriptor) => ({
    ...head,
    op: "create" as const,
    ...sharedFrame,
    descriptor,
  })),
  { ...head, op: "create", name: "frame", lifetime: "held", descriptor: gpuArray },
  ...([true, "any", 7] as const).map((replace) => ({
    ...head,
    op: "create" as const,
    ...sharedFrame,
    replace,
  })),
  ...[[], [1001, 1002]].map((workers) => ({
    ...head,
    op: "create" as const,
    ...sharedFrame,
    name: "double:w1:0",
    workers,
  })),
  { ...head, op: "create", name: "frame", lifetime: "held", descriptor: pooledArray },
  { ...head, op: "create", name: "frame", lifetime: "held", descriptor: legacyArray },
  { ...head, op: "create", name: "frame", lifetime: "pinned", descriptor: replica },
  ...channels.map((descriptor) => ({ ...head, op: "create" as const, ...sharedFrame, descriptor })),
  { ...head, op: "publish", object: 1 },
  { ...head, op: "open", name: "frame", access: "read", wait: true },
  { ...head, op: "open", name: "frame", access: "read-write", wait: false },
  { ...head, op: "open", name: "frame", access: "read-write", wait: false, role: "writer" },
  { ...head, op: "open", name: "frame", access: "read", wait: true, role: "reader" },
  { ...head, op: "open", name: "frame", access: "read", wait: true, role: "observer" },
  { ...head, op: "cancel", request: 3 },
  { ...head, op: "cancel", request: 3, explain: true },
  { ...head, op: "release", lease: 2 },
  { ...head, op: "drain", object: 1 },
  { ...head, op: "remove", name: "frame" },
  { ...head, op: "remove", name: "frame", unheldSinceMs: 5 },
  { ...head, op: "remove", name: "frame", object: 9 },
  { ...head, op: "list" },
  { ...head, op: "list", after: "frame", holders: true },
  { ...head, op: "list", after: "0000000000000007", holders: true, nameless: true },
  { ...head, op: "changes" },
  { ...head, op: "changes", since: 12 },
  { ...head, op: "changes", since: 12, wait: true },
  { ...head, op: "clients" },
  { ...head, op: "clients", after: 3 },
  { ...head, op: "inspect", name: "frame" },
  { ...head, op: "status" },
  { ...head, op: "stop", force: false },
  { ...head, op: "restart" },
  { ...head, op: "disconnect", session: 3 },
  { ...head, op: "bye" },
];

/**
 * Whether a message ends the hub or another client. Every client of a user may do that, so tests of
 * what hostile messages must not do leave these out.
 */
export function mayEndOthers(bytes: Uint8Array): boolean {
  try {
    const request = decodeRequest(bytes);
    const { op } = request;
    // It takes the name of another object of the same user.
    if (op === "create" && request.replace !== undefined) return true;
    return op === "restart" || op === "disconnect" || (op === "stop" && request.force);
  } catch {
    return false;
  }
}

/** How many descriptors go with a request. */
export function fdCountOf(request: Request): number {
  return request.op === "create" ? fdsOf(request.descriptor) : 0;
}

const summary: ObjectSummary = {
  name: "frame",
  object: 1,
  published: true,
  lifetime: "held",
  sharing: { with: "private", access: "read" },
  leases: 2,
  ownerPid: 4242,
  ownerUid: 1000,
  hasMemory: true,
  createdAtMs: 1_700_000_000_000,
  unheldSinceMs: null,
  descriptor: hostArray,
};

const holders: readonly Holder[] = (
  [
    ["owner"],
    ["read"],
    ["read-write"],
    ["read", "reader"],
    ["read", "writer"],
    ["read", "observer"],
  ] as const
).map(([access, role]) => ({
  pid: 4242,
  program: "test",
  access,
  session: 3,
  sinceMs: 1_700_000_000_000,
  ...(role !== undefined && { role, place: 1 }),
}));
/** Entries of `list` and `changes`, with every field and choice. */
const heldObjects: readonly HeldObject[] = [
  summary,
  {
    ...summary,
    leases: 0,
    unheldSinceMs: 5,
    ownerPid: null,
    lifetime: "pinned",
    descriptor: hostBundle(3, 200),
  },
  { ...summary, name: "double:w1:0", serviceUsers: [1000, 1001] },
  ...[...timelines, gpuArray, pooledArray, legacyArray, replica, ...channels].map(
    (descriptor, index) => ({
      ...summary,
      descriptor,
      sharing: sharings[index] ?? summary.sharing,
      holders: [...holders],
    }),
  ),
];
const opened = { object: 1, lease: 3 };

/** Results of each operation, as complete as the requests. */
export const results: { readonly [Op in Request["op"]]: readonly ResultOf<Op>[] } = {
  hello: [
    {
      version: "1.2.3",
      instance: "01234567-89ab-4def-8123-456789abcdef",
      pid: 4242,
      session: 3,
      resumed: false,
    },
  ],
  create: [{ object: 1, lease: 2 }],
  publish: [{}],
  restore: [{}],
  restored: [{}],
  restart: [{}],
  open: [
    ...[hostArray, hostBundle(3, 200), ...timelines, gpuArray].map((descriptor) => ({
      ...opened,
      descriptor,
    })),
    ...[pooledArray, legacyArray, replica, ...channels].map((descriptor) => ({
      ...opened,
      descriptor,
    })),
    { ...opened, descriptor: channelOf(), place: 1 },
  ],
  cancel: [{}, { found: 'no process has created "frame"' }],
  release: [{}],
  drain: [{}],
  remove: [{}],
  list: [
    { objects: [summary], next: "frame" },
    { objects: [{ ...summary, nameless: true }], next: "0000000000000007" },
    { objects: [...heldObjects], next: null },
  ],
  changes: [
    { objects: [...heldObjects], ended: [2, 3], next: 12, more: true, reset: false },
    { objects: [], ended: [], next: 0, more: false, reset: true },
  ],
  clients: [
    {
      clients: [
        {
          session: 3,
          pid: 4242,
          uid: 1000,
          program: "test",
          connected: true,
          leases: 2,
          waitingOpens: 1,
          hostBytes: 4096,
          deviceBytes: 0,
        },
      ],
      next: 3,
    },
    { clients: [], next: null },
  ],
  inspect: [
    hostArray,
    hostBundle(3, 200),
    ...timelines,
    gpuArray,
    pooledArray,
    legacyArray,
    replica,
    ...channels,
  ].map((descriptor, index) => ({
    object: {
      ...summary,
      descriptor,
      lifetime: descriptor === hostArray ? "held" : "pinned",
      unheldSinceMs: descriptor === hostArray ? null : 5,
      ...(descriptor === replica && { serviceUsers: [1000, 1001] }),
      sharing: sharings[index % sharings.length] ?? summary.sharing,
    },
    holders: [...holders],
    holdersLeftOut: 0,
  })),
  status: [
    {
      version: "1.2.3",
      instance: "01234567-89ab-4def-8123-456789abcdef",
      pid: 4242,
      startedAtMs: 1_700_000_000_000,
      socket: "/run/user/1000/cuda-ipc/hub.sock",
      clients: 2,
      detached: 0,
      objects: 1,
      withoutMemory: 0,
      pinned: 0,
      nameless: { objects: 1, hostBytes: 4096, deviceBytes: 0 },
      leases: 2,
      waitingOpens: 0,
      hostBytes: 4096,
      deviceBytes: 0,
      idleMs: 30_000,
      keeper: { pid: 4243, descriptors: 3, pending: 1 },
      metrics: "http://127.0.0.1:9464/metrics",
      lost: [
        {
          name: "frame",
          byteLength: 4096,
          device: "host",
          ownerPid: 4242,
          ownerUid: 1000,
          lostAtMs: 1_700_000_000_000,
        },
      ],
      limits: [
        { of: "client", resource: "leases", limit: 9, used: 2 },
        { of: "user", resource: "objects", limit: 10, used: 2 },
        { of: "hub", resource: "messagesPerSecond", limit: 5, used: null },
      ],
      users: [
        {
          uid: 1000,
          clients: 1,
          objects: 2,
          leases: 3,
          waitingOpens: 0,
          hostBytes: 4096,
          deviceBytes: 0,
        },
      ],
      usersLeftOut: 0,
      troubles: ["the folder of the socket is gone"],
    },
  ],
  stop: [{}],
  disconnect: [{}],
  bye: [{}],
};
