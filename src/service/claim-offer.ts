/**
 * Claims a worker's offer, and makes the channel for the client's requests. A reply channel has one
 * reader: whoever opens it first has the offer.
 */
import { Deadline } from "../base/deadline.js";
import { CudaIpcError } from "../base/errors.js";
import { defaults } from "../base/limits.js";
import { acquireInAsync } from "../base/scope.js";
import type { Hub } from "../client/hub.js";
import type { ClientChannels } from "./client-link.js";
import { ReceivedEnvelope } from "./envelope.js";
import { slotsOf } from "./link-window.js";
import { parseFacts } from "./service-facts.js";
import { type FoundOffer, requestName } from "./service-names.js";
import type { ConnectServiceOptions } from "./service-options.js";

export type ClaimedOffer = Omit<ClientChannels, "machine">;

/**
 * @throws READERS_FULL if another client was faster
 * @throws NOT_FOUND, PEER_GONE if the worker is gone
 * @throws the errors of `openChannel` and `createChannel`
 */
export async function claimOffer(
  hub: Hub,
  { worker, name }: FoundOffer,
  { device, stream, sharing }: ConnectServiceOptions,
  signal: AbortSignal,
): Promise<ClaimedOffer> {
  const deadline = new Deadline(
    `connect to worker "${name}"`,
    { signal },
    defaults.requestTimeoutMs,
  );
  return acquireInAsync(async (scope) => {
    const rest = () => ({ signal, timeoutMs: deadline.remainingMs });
    const opened = await hub.openChannel(name, { from: "oldest", wait: false, stream, ...rest() });
    const replies = scope.own(opened, (replies) => replies.close());
    using first = await replies.next(rest());
    if (first === undefined)
      throw new CudaIpcError("PEER_GONE", `Cannot connect to worker "${name}": it was closed`);
    const hello = new ReceivedEnvelope(name, first.meta);
    if (hello.kind !== "hello") {
      throw new CudaIpcError(
        "CHANNEL_CORRUPT",
        `Cannot connect to worker "${name}": its first message is of kind "${hello.kind}"`,
      );
    }
    const facts = parseFacts(name, hello.json);
    const { dtype, shape, metaBytesMax } = facts.request;
    const ring = {
      slots: slotsOf(facts.depth),
      readersMax: 1,
      device: device ?? replies.device.name,
      sharing,
    };
    const requests = await hub.createChannel(requestName(name), {
      dtype,
      shape,
      metaBytesMax,
      ...ring,
      ...rest(),
    });
    return { worker, requests, replies, facts, stream };
  });
}
