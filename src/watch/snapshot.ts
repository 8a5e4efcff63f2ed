/** What a look at a hub finds, as plain data: for people, pages and metrics. */
import type { ChannelStatistics } from "../channel/channel-observer.js";
import type { ClientStatus, HeldObject, Holder, HubStatus } from "../wire/messages.js";

export interface Snapshot {
  /** Unix time in milliseconds. */
  readonly atMs: number;
  /** Milliseconds of a clock that never goes back, for rates. */
  readonly monotonicMs: number;
  readonly hub: WatchedHub;
  /** The host first, then GPUs. */
  readonly devices: readonly WatchedDevice[];
  /** Why nothing is known of GPUs beside what the hub's objects hold. */
  readonly gpusUnknown: string | undefined;
  readonly objects: readonly WatchedObject[];
  /** Objects without a name. Their holders keep them. Nobody can open them by `name`. */
  readonly nameless: readonly WatchedObject[];
  readonly clients: readonly WatchedClient[];
  readonly channels: readonly WatchedChannelState[];
  readonly services: readonly WatchedService[];
}

export interface WatchedHub {
  readonly socket: string;
  /** Whether it answered. If not, all other parts of the snapshot are what was known before. */
  readonly answers: boolean;
  /** Why it did not answer, as a clause. */
  readonly reason: string | undefined;
  /** Since when it is as it is, in Unix milliseconds. */
  readonly sinceMs: number;
  /** How many hubs followed the first one. */
  readonly successors: number;
  /** Of the latest answer. Without the client that watches. */
  readonly status: HubStatus | undefined;
}

export interface WatchedDevice {
  /** `host`, or the UUID of a GPU. */
  readonly device: string;
  /** Such as `NVIDIA H200`. */
  readonly model: string | undefined;
  readonly totalBytes: number | undefined;
  readonly usedBytes: number | undefined;
  /** Held by the objects of the hub that this user may see. */
  readonly heldBytes: number;
  /** Used by anything else. */
  readonly othersBytes: number | undefined;
  /** Processes that compute on a GPU, with their own memory. */
  readonly processes: readonly { readonly pid: number; readonly bytes: number | undefined }[];
}

export interface WatchedObject extends Omit<HeldObject, "holders"> {
  /** `host`, or the UUID of a GPU. */
  readonly device: string;
  /** What it counts for on its device. */
  readonly heldBytes: number;
  /** Oldest first. `leases` counts all, also those for which the answer had no room. */
  readonly holders: Holder[];
}

export interface WatchedClient extends ClientStatus {
  /** The name of its user, if this machine has one. */
  readonly user: string | undefined;
  /** Its command line, if this process can see it. */
  readonly command: string | undefined;
  /** `JavaScript` or `Python`, if program and command tell. */
  readonly language: string | undefined;
  /** The numbers of the objects that it holds. */
  readonly objects: readonly number[];
}

export type WatchedChannelState =
  | (ChannelStatistics & ChannelFigures)
  | { readonly object: number; readonly name: string; readonly unreadable: string };

export interface ChannelFigures {
  readonly object: number;
  readonly name: string;
  readonly unreadable?: undefined;
  /** The mean size of the latest messages. */
  readonly meanBytes: number | undefined;
  /** When the latest message was committed, in Unix milliseconds. */
  readonly lastMessageAtMs: number | undefined;
}

export interface WatchedService {
  readonly name: string;
  readonly workers: number;
  /** Links between a client and a worker. */
  readonly links: number;
  /** Offers of workers that no client has claimed. */
  readonly offers: number;
  /** Requests without an answer. */
  readonly underWay: number;
  /** Answers since the links that are open now began. */
  readonly answered: number;
  /** Of the latest answers whose requests are still known, from the request to the answer. */
  readonly latency: Latency | undefined;
  /** The numbers of the channels of its links for replies. */
  readonly replyChannels: readonly number[];
  /** The numbers of the channels that its workers offer. */
  readonly offerChannels: readonly number[];
}

export interface Latency {
  readonly count: number;
  readonly medianMs: number;
  readonly maxMs: number;
}
