/**
 * The messages between a process and the bridge of its machine, on the Unix socket beside the
 * hub's. A connection has one purpose, `pull`, `worker` or `status`, and one request under way.
 */
import * as v from "valibot";
import { limits } from "../base/limits.js";
import { refusalSchema } from "./peer-messages.js";
import { count, positive } from "./schemas.js";

const head = { v: v.literal(1) };
const word = v.pipe(v.string(), v.maxLength(255));

/**
 * The bridge listens beside the hub, or at the path in `CUDA_IPC_BRIDGE_SOCKET`: a bridge of a user
 * other than the hub's can make no file in the hub's folder.
 */
export function bridgeSocketPath(hubSocketPath: string): string {
  return process.env.CUDA_IPC_BRIDGE_SOCKET || `${hubSocketPath}.bridge`;
}

export const bridgeRequestSchema = v.variant("op", [
  /** Asks for a copy of another machine's object. Without `wait` an unknown name is NOT_FOUND. */
  v.strictObject({ ...head, op: v.literal("pull"), name: word, wait: v.boolean() }),
  /** After an answer to `pull` that is not `done`: answered when there is news. */
  v.strictObject({ ...head, op: v.literal("next") }),
  /**
   * Asks for an offer of a worker of this service on another machine, of none of `except`. It is
   * made on this machine's hub, and waits a while for the client to claim it.
   */
  v.strictObject({
    ...head,
    op: v.literal("worker"),
    service: word,
    except: v.pipe(v.array(word), v.maxLength(limits.farWorkersMax)),
  }),
  /** Asks for the machines and names that the bridge knows, a page at a time. */
  v.strictObject({ ...head, op: v.literal("status"), after: v.optional(word) }),
]);

export type BridgeRequest = v.InferOutput<typeof bridgeRequestSchema>;

const pulling = v.variant("state", [
  /**
   * No machine has announced the name yet, or the one that did is gone. Told again when NATS ceases
   * to answer the bridge, and when it answers again.
   */
  v.strictObject({
    ...head,
    ok: v.literal(true),
    state: v.literal("waiting"),
    namesAway: v.boolean(),
  }),
  v.strictObject({
    ...head,
    ok: v.literal(true),
    state: v.literal("fetching"),
    machine: word,
    doneBytes: count,
    totalBytes: count,
  }),
  /** The hub has it. `machine` is null if it is this machine's own. */
  v.strictObject({
    ...head,
    ok: v.literal(true),
    state: v.literal("done"),
    machine: v.nullable(word),
    byteLength: count,
  }),
]);

export const pullReplySchema = v.union([pulling, refusalSchema]);
export type PullReply = v.InferOutput<typeof pulling>;

const offered = v.strictObject({
  ...head,
  ok: v.literal(true),
  /** Of the offer on this machine's hub. */
  name: word,
  worker: word,
  machine: word,
});

export const workerReplySchema = v.union([offered, refusalSchema]);
export type OfferedWorker = v.InferOutput<typeof offered>;

const knownName = v.strictObject({
  name: word,
  machine: word,
  object: positive,
  byteLength: count,
});

const copyUnderWay = v.strictObject({
  name: word,
  machine: word,
  doneBytes: count,
  totalBytes: count,
  /** Over the last seconds. */
  bytesPerSecond: count,
});

const announcedService = v.strictObject({
  service: word,
  machine: word,
  /**
   * Workers under way between machines: those of this machine that others use, or those of the
   * other machine that are used here.
   */
  workersUsed: count,
});

const carriedChannel = v.strictObject({
  name: word,
  /** `in`: from the machine to this one. `out`: from this one to the machine. */
  direction: v.picklist(["in", "out"]),
  machine: word,
  /** Messages since the bridge joined the channel, with those that were missed. */
  messages: count,
});

const statusReply = v.strictObject({
  ...head,
  ok: v.literal(true),
  machine: word,
  /** Null while NATS answers; otherwise for how long it has not. */
  namesAwayMs: v.nullable(count),
  ucx: word,
  transports: v.array(word),
  /** `version` is of its bridge; with another one it exchanges nothing. Undefined if it is gone. */
  machines: v.array(
    v.strictObject({
      machine: word,
      alive: v.boolean(),
      names: count,
      version: v.optional(positive),
    }),
  ),
  machinesLeftOut: count,
  fetches: v.array(copyUnderWay),
  /** Sorted by service, then by machine. Those of this machine are what it announces. */
  services: v.array(announcedService),
  servicesLeftOut: count,
  channels: v.array(carriedChannel),
  channelsLeftOut: count,
  /** Names of this machine that another machine has announced before. */
  refused: v.array(v.strictObject({ name: word, machine: word })),
  /** Sorted by name. Pass `next` as `after` to get the following page. */
  names: v.array(knownName),
  next: v.nullable(word),
});

export const statusReplySchema = v.union([statusReply, refusalSchema]);
export type BridgeStatus = v.InferOutput<typeof statusReply>;
export type CopyUnderWay = v.InferOutput<typeof copyUnderWay>;
export type CarriedChannelStatus = v.InferOutput<typeof carriedChannel>;

export type BridgeMessage = BridgeRequest | PullReply | OfferedWorker | BridgeStatus;
