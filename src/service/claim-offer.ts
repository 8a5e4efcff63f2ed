/** Takes up a worker's offer: its only place for replies first, by which one of those who try is chosen, then a channel for requests. */
import { Deadline } from "../base/deadline.js";
import { CudaIpcError } from "../base/errors.js";
import { defaults } from "../base/limits.js";
import { acquireInAsync } from "../base/scope.js";
import type { Hub } from "../client/hub.js";
import type { ClientChannels } from "./client-link.js";
import { Arrived } from "./envelope.js";
import { slotsOf } from "./link-window.js";
import { parseFacts } from "./service-facts.js";
import { type Found, requestName } from "./service-names.js";
import type { ConnectServiceOptions } from "./service-options.js";

/**
 * @throws READERS_FULL, NOT_FOUND, PEER_GONE where another client was faster or the worker has gone, and what `openChannel` and
 * `createChannel` throw
 */
export async function claimOffer(
  hub: Hub,
  { worker, name }: Found,
  { device, stream, sharing }: ConnectServiceOptions,
  signal: AbortSignal,
): Promise<ClientChannels> {
  const deadline = new Deadline(`take up "${name}"`, { signal }, defaults.requestTimeoutMs);
  return acquireInAsync(async (scope) => {
    const rest = () => ({ signal, timeoutMs: deadline.remainingMs });
    const opened = await hub.openChannel(name, { from: "oldest", wait: false, stream, ...rest() });
    const replies = scope.own(opened, (replies) => replies.close());
    using first = await replies.next(rest());
    if (first === undefined) throw new CudaIpcError("PEER_GONE", `Cannot take up "${name}": its worker was closed`);
    const hello = new Arrived(name, first.meta);
    if (hello.kind !== "hello") {
      throw new CudaIpcError("CHANNEL_CORRUPT", `Cannot take up "${name}": its worker began with a ${hello.kind}`);
    }
    const facts = parseFacts(name, hello.json);
    const { dtype, shape, metaBytesMax } = facts.request;
    const ring = { slots: slotsOf(facts.depth), readersMax: 1, device: device ?? replies.device.name, sharing };
    const requests = await hub.createChannel(requestName(name), { dtype, shape, metaBytesMax, ...ring, ...rest() });
    return { worker, requests, replies, facts, stream };
  });
}
