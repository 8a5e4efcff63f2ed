/**
 * The state of channels, read from their control files and pages. Each channel is opened once, as
 * an observer that holds no lease and no seat.
 */
import type { Deadline } from "../base/deadline.js";
import { CudaIpcError, messageOf } from "../base/errors.js";
import { limits } from "../base/limits.js";
import { releaseAll } from "../base/scope.js";
import type { ChannelObserver } from "../channel/channel-observer.js";
import type { HubObjects } from "../client/objects/hub-objects.js";
import { type WatchedChannel, watchChannel } from "../client/objects/shared-channel.js";
import type { WatchedChannelState, WatchedObject } from "./snapshot.js";

/** The latest messages whose sizes are averaged. */
const AVERAGED = 64;

export class WatchedChannels {
  /** By object. A text says why the channel cannot be read. */
  readonly #channels = new Map<number, WatchedChannel | string>();

  /** The observer of a channel, if it can be read. */
  observer(object: number): ChannelObserver | undefined {
    const channel = this.#channels.get(object);
    return typeof channel === "object" ? channel.observer : undefined;
  }

  /** Opens channels that are new, and closes those that are no more. */
  async update(
    objects: HubObjects,
    shared: Iterable<WatchedObject>,
    deadline: Deadline,
  ): Promise<void> {
    const present = watchable(shared);
    for (const [object, channel] of this.#channels) {
      if (present.has(object)) continue;
      this.#channels.delete(object);
      if (typeof channel === "object") channel.close();
    }
    for (const [object, name] of present) {
      if (!this.#channels.has(object)) await this.#open(objects, object, name, deadline);
    }
  }

  /** The state of a channel now. */
  state({ object, name }: WatchedObject): WatchedChannelState {
    const channel = this.#channels.get(object);
    if (channel === undefined) return { object, name, unreadable: "it is not watched" };
    if (typeof channel === "string") return { object, name, unreadable: channel };
    const { observer } = channel;
    try {
      const meanBytes = observer.meanByteLength(AVERAGED);
      const lastMessageAtMs = observer.messages(1, 0)[0]?.timestampMs;
      return { object, name, ...observer.statistics(), meanBytes, lastMessageAtMs };
    } catch (error) {
      return { object, name, unreadable: messageOf(error) };
    }
  }

  close(): void {
    const open = [...this.#channels.values()].filter((channel) => typeof channel === "object");
    this.#channels.clear();
    releaseAll(open.map((channel) => () => channel.close()));
  }

  async #open(
    objects: HubObjects,
    object: number,
    name: string,
    deadline: Deadline,
  ): Promise<void> {
    try {
      const channel = await watchChannel(objects, name, { ...deadline.rest(), wait: false });
      // The name may be another channel's by now, which the next update opens.
      if (channel.object === object) this.#channels.set(object, channel);
      else channel.close();
    } catch (error) {
      deadline.check();
      if (!(error instanceof CudaIpcError)) throw error;
      // A channel that has ended meanwhile is gone in the next update.
      if (error.code !== "NOT_FOUND") this.#channels.set(object, error.message);
    }
  }
}

/** The channels that are watched, by number: as many as a process can map. */
export function watchable(
  shared: Iterable<
    Pick<WatchedObject, "object" | "name" | "published" | "hasMemory" | "descriptor">
  >,
): Map<number, string> {
  const found = new Map<number, string>();
  let mappings = 0;
  for (const { object, name, published, hasMemory, descriptor } of shared) {
    if (descriptor.content.kind !== "channel" || !published || !hasMemory) continue;
    mappings += 1 + descriptor.content.readersMax;
    if (mappings > limits.watchedMappingsMax || found.size === limits.watchedChannelsMax) break;
    found.set(object, name);
  }
  return found;
}
