/** Snapshots and their parts, for tests of what is made of them. */
import type {
  Snapshot,
  WatchedChannelState,
  WatchedClient,
  WatchedObject,
} from "../../../src/watch/snapshot.js";
import { channelContent, hostArray } from "../../support/messages.js";

export type ReadableChannel = Extract<WatchedChannelState, { readonly unreadable?: undefined }>;

export function watchedObject(changes: Partial<WatchedObject> = {}): WatchedObject {
  return {
    name: "frame",
    object: 1,
    published: true,
    lifetime: "held",
    sharing: { with: "private", access: "read" },
    leases: 1,
    ownerPid: 4242,
    ownerUid: 1000,
    hasMemory: true,
    createdAtMs: 1_700_000_000_000,
    unheldSinceMs: null,
    descriptor: hostArray,
    device: "host",
    heldBytes: 4096,
    holders: [
      { pid: 4242, program: "producer", access: "owner", session: 3, sinceMs: 1_700_000_000_000 },
    ],
    ...changes,
  };
}

export function watchedClient(changes: Partial<WatchedClient> = {}): WatchedClient {
  return {
    session: 3,
    pid: 4242,
    uid: 1000,
    program: "producer",
    connected: true,
    leases: 1,
    waitingOpens: 0,
    hostBytes: 4096,
    deviceBytes: 0,
    user: "alice",
    command: "node producer.mjs",
    language: "JavaScript",
    objects: [1],
    ...changes,
  };
}

export function watchedChannel(changes: Partial<ReadableChannel> = {}): ReadableChannel {
  const { dtype, shape, slots, slotBytes, metaBytesMax, readersMax, whenFull, whenWriterGone } =
    channelContent;
  return {
    object: 2,
    name: "numbers",
    writer: "open",
    writers: 1,
    dtype,
    shape,
    slots,
    slotBytes,
    metaBytesMax,
    readersMax,
    whenFull,
    whenWriterGone,
    committed: 100,
    dropped: 3,
    readers: [
      {
        place: 0,
        lossy: false,
        asleep: false,
        expelled: false,
        behind: 2,
        received: 98,
        missed: 0,
      },
    ],
    meanBytes: 20,
    lastMessageAtMs: 1_700_000_000_000,
    ...changes,
  };
}

export function snapshotOf(changes: Partial<Snapshot> = {}): Snapshot {
  return {
    atMs: 1_700_000_100_000,
    monotonicMs: 1000,
    hub: {
      socket: "/run/user/1000/cuda-ipc/hub.sock",
      answers: true,
      reason: undefined,
      sinceMs: 1_700_000_000_000,
      successors: 0,
      status: undefined,
    },
    devices: [],
    gpusUnknown: undefined,
    objects: [],
    nameless: [],
    clients: [],
    channels: [],
    services: [],
    ...changes,
  };
}
