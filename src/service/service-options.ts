/** What a service is to be like, and how a client uses it, as the callers say it and checked. */
import type { DType } from "../array/dtype.js";
import type { WaitOptions } from "../base/deadline.js";
import { defaults, limits } from "../base/limits.js";
import { integer, nested, oneOf, optionsOf, waitChecks } from "../base/option-checks.js";
import { type ChannelOptions, channelChecks, channelShape } from "../channel/channel-options.js";
import type { ChannelShape } from "../channel/channel-parts.js";
import { sharingCheck } from "../client/call-checks.js";
import type { SharingOptions } from "../client/hub-options.js";
import type { Device } from "../gpu/device.js";
import { aDeviceName, aStream } from "../gpu/option-checks.js";
import type { Stream } from "../gpu/stream.js";
import { ENVELOPE_BYTES } from "./envelope.js";
import { slotsOf } from "./link-window.js";

/** Of one message: `dtype` and `shape` of what fills it, or `byteLength`. */
export type MessageOptions<D extends DType = DType> = Pick<ChannelOptions<D>, "dtype" | "shape" | "byteLength">;

export interface ServeOptions<Q extends DType = DType, R extends DType = DType> extends WaitOptions {
  readonly request: MessageOptions<Q>;
  /** Left out for a service that answers with meta alone. */
  readonly reply?: MessageOptions<R> | undefined;
  /** Requests of one client that are under way with this worker at a time; one more than `concurrency` by default. */
  readonly depth?: number | undefined;
  /** Clients that this worker takes at a time; 16 by default. */
  readonly clientsMax?: number | undefined;
  /** Requests that the handler works on at a time; 1 by default. */
  readonly concurrency?: number | undefined;
  /** Bytes of meta that go with a request, and with a reply, at most; 256 by default. */
  readonly metaBytesMax?: number | undefined;
  /** Where requests and replies lie: `host`, `cuda:N` or `auto`; default what `connect` was given. */
  readonly device?: string | undefined;
  /** The handler's work is done by this stream: it waits for the requests' data, and gives requests back and replies out in its order. */
  readonly stream?: Stream | undefined;
  /** Other users who may be clients; by default nobody beside this process's own user (and root). */
  readonly sharing?: SharingOptions | undefined;
  /** How long a client that has taken an offer may be silent before this worker makes another; 10 s by default. */
  readonly claimTimeoutMs?: number | undefined;
}

export interface ConnectServiceOptions {
  /**
   * What becomes of a request whose worker dies before it answered: another worker gets it (`retry`, default), so that it may be worked on
   * twice, or it fails with PEER_GONE (`fail`).
   */
  readonly policy?: "retry" | "fail" | undefined;
  /** How often a request is given to another worker at most; 3 by default. */
  readonly retriesMax?: number | undefined;
  /** Workers that this client uses at a time; 64 by default. */
  readonly workersMax?: number | undefined;
  /** Where requests lie; the device of the worker's replies by default. */
  readonly device?: string | undefined;
  /** Replies are read by this stream, as with `openChannel`, and requests are filled by it. */
  readonly stream?: Stream | undefined;
  /** Other users whose workers may read the requests. */
  readonly sharing?: SharingOptions | undefined;
}

const { dtype, shape, byteLength } = channelChecks;

const messageCheck = nested<MessageOptions>(
  { dtype, shape, byteLength },
  { such: '{ dtype: "float32", shape: [2, 3] }' },
);

export const checkServe = optionsOf<ServeOptions>(
  "serve()",
  {
    ...waitChecks,
    request: messageCheck,
    reply: messageCheck,
    depth: integer(1, limits.serviceDepthMax),
    clientsMax: integer(1, limits.serviceLinksMax),
    concurrency: integer(1, limits.serviceConcurrencyMax),
    metaBytesMax: integer(0, limits.channelMetaBytesMax - ENVELOPE_BYTES),
    device: aDeviceName,
    stream: aStream,
    sharing: sharingCheck,
    claimTimeoutMs: integer(1, 2 ** 31 - 1),
  },
  { needs: ["request"], such: "{ request: { dtype, shape }, reply: { dtype, shape } }" },
);

const checkConnectService = optionsOf<ConnectServiceOptions>("connectService()", {
  policy: oneOf("retry", "fail"),
  retriesMax: integer(0),
  workersMax: integer(1, limits.serviceLinksMax),
  device: aDeviceName,
  stream: aStream,
  sharing: sharingCheck,
});

/** What both channels of each link of a worker are made of. */
export interface ServicePlan<Q extends DType = DType, R extends DType = DType> {
  readonly request: ChannelShape<Q>;
  readonly reply: ChannelShape<R>;
  /** Whether replies have data beside their meta. */
  readonly hasReplyData: boolean;
  readonly depth: number;
  readonly clientsMax: number;
  readonly concurrency: number;
  readonly claimTimeoutMs: number;
}

export interface ClientPlan {
  readonly policy: "retry" | "fail";
  readonly retriesMax: number;
  readonly workersMax: number;
}

/** WHY a byte: a channel has memory, also one whose messages are meta alone. */
const NO_DATA = { byteLength: 1 } as const;

/** @throws TypeError, RangeError */
export function servicePlan<Q extends DType, R extends DType>(
  options: ServeOptions<Q, R>,
  { facts: { alignmentBytes } }: Device,
): ServicePlan<Q, R> {
  const { clientsMax = 16, concurrency = 1, metaBytesMax = 256 } = options;
  const depth = options.depth ?? Math.min(concurrency + 1, limits.serviceDepthMax);
  const claimTimeoutMs = options.claimTimeoutMs ?? defaults.serviceClaimTimeoutMs;
  const channel = { slots: slotsOf(depth), readersMax: 1 } as const;
  // WHY more for replies: what the worker says of itself and of errors is in their meta.
  const replyMeta = Math.max(metaBytesMax, limits.serviceReportBytesMax);
  return {
    request: channelShape(
      { ...messageOf(options.request), ...channel, metaBytesMax: ENVELOPE_BYTES + metaBytesMax },
      alignmentBytes,
    ),
    hasReplyData: options.reply !== undefined,
    reply: channelShape(
      { ...messageOf(options.reply ?? NO_DATA), ...channel, metaBytesMax: ENVELOPE_BYTES + replyMeta },
      alignmentBytes,
    ),
    depth,
    clientsMax,
    concurrency,
    claimTimeoutMs,
  };
}

/** @throws TypeError, RangeError */
export function clientPlan(options: ConnectServiceOptions): ClientPlan {
  checkConnectService(options);
  const { policy = "retry", retriesMax = 3, workersMax = 64 } = options;
  return { policy, retriesMax, workersMax };
}

function messageOf<D extends DType>({ dtype, shape, byteLength }: MessageOptions<D>): MessageOptions<D> {
  return { dtype, shape, byteLength };
}
