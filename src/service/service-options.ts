/** Options of a service and of its clients, and their checks. */
import type { DType } from "../array/dtype.js";
import type { WaitOptions } from "../base/deadline.js";
import { defaults, limits } from "../base/limits.js";
import {
  checkShape,
  integer,
  nested,
  oneOf,
  optionsOf,
  waitChecks,
} from "../base/option-checks.js";
import { shownValue } from "../base/shown-value.js";
import { type ChannelOptions, channelChecks, channelShape } from "../channel/channel-options.js";
import type { ChannelShape } from "../channel/channel-parts.js";
import type { Meta } from "../channel/message-meta.js";
import { sharingCheck } from "../client/call-checks.js";
import { UID_MAX } from "../client/connection/hub-trust.js";
import { Hub } from "../client/hub.js";
import type { SharingOptions } from "../client/hub-options.js";
import type { Device } from "../gpu/device.js";
import { aDeviceName, aStream } from "../gpu/option-checks.js";
import type { Stream } from "../gpu/order/stream.js";
import { ENVELOPE_BYTES } from "./envelope.js";
import { slotsOf } from "./link-window.js";

/** @throws TypeError */
export function checkHub(hub: Hub): void {
  if (hub instanceof Hub) return;
  throw new TypeError(`hub must be a Hub, as connect() returns, not ${shownValue(hub)}`);
}

/** The size of a message: `dtype` and `shape`, or `byteLength`. */
export type MessageOptions<D extends DType = DType> = Pick<
  ChannelOptions<D>,
  "dtype" | "shape" | "byteLength"
>;

export interface ServeOptions<Q extends DType = DType, R extends DType = DType>
  extends WaitOptions {
  readonly request: MessageOptions<Q>;
  /** Leave this out for a service whose replies have only meta. */
  readonly reply?: MessageOptions<R> | undefined;
  /** Open requests that one client may have with this worker. Default: `concurrency` + 1. */
  readonly depth?: number | undefined;
  /** Clients that this worker accepts at a time. Default: 16. */
  readonly clientsMax?: number | undefined;
  /** Requests that the handler works on at a time. Default: 1. */
  readonly concurrency?: number | undefined;
  /** The most bytes of meta in a request or a reply. Default: 256. */
  readonly metaBytesMax?: number | undefined;
  /**
   * The device of requests and replies: `host`, `cuda:N` or `auto`. Default: the device of the hub.
   */
  readonly device?: string | undefined;
  /**
   * The stream on which the handler works. It waits for the requests' data, releases requests and
   * sends replies.
   */
  readonly stream?: Stream | undefined;
  /** Other users who may be clients. Default: only this process's user, and root. */
  readonly sharing?: SharingOptions | undefined;
  /**
   * Users whose processes may also be workers of this service, beside this process's user, root and
   * the hub's user. The first worker of a service decides. Later ones do not change it.
   */
  readonly workers?: WorkerUsers | undefined;
  /**
   * Milliseconds that a client may stay silent after it claimed an offer. Then the worker makes
   * another offer. Default: 10 s.
   */
  readonly claimTimeoutMs?: number | undefined;
}

export interface ConnectServiceOptions {
  /**
   * What happens to a request if its worker dies before it answers. `retry` (default) sends it to
   * another worker, so it may be handled twice. `fail` throws PEER_GONE.
   */
  readonly policy?: "retry" | "fail" | undefined;
  /** How many times a request may be sent to another worker. Default: 3. */
  readonly retriesMax?: number | undefined;
  /** Workers that this client uses at a time. Default: 64. */
  readonly workersMax?: number | undefined;
  /**
   * Where to look for workers: on this machine (`here`, the default), or on all (`any`). Then
   * requests for which no worker of this machine has room go to workers of other machines, through
   * its bridge.
   */
  readonly machine?: "here" | "any" | undefined;
  /** The device of the requests. Default: the device of the worker's replies. */
  readonly device?: string | undefined;
  /** The stream that reads replies (as with `openChannel`) and fills requests. */
  readonly stream?: Stream | undefined;
  /** Other users whose workers may read the requests. Needed for those that `workers` names. */
  readonly sharing?: SharingOptions | undefined;
  /**
   * Users whose workers it takes, beside those of this process's user, of root and of the hub's
   * user. The kernel tells the hub of which user a worker is.
   */
  readonly workers?: WorkerUsers | undefined;
}

/** Users of this machine, by the numbers that the hub sees. */
export interface WorkerUsers {
  readonly uid: number | readonly number[];
}

const aUid = integer(0, UID_MAX);

const workersCheck = nested<WorkerUsers>(
  {
    uid: (option, value) => {
      const uids = Array.isArray(value) ? value : [value];
      if (uids.length > limits.serviceUsersMax) {
        const found = `${uids.length} users, over the limit of ${limits.serviceUsersMax}`;
        throw new RangeError(`${option} has ${found}`);
      }
      for (const uid of uids) aUid(option, uid);
    },
  },
  { needs: ["uid"], such: "{ uid: 1001 }" },
);

/** The uids that the option names. */
export function uidsOf(workers: WorkerUsers | undefined): readonly number[] {
  return workers === undefined ? [] : [workers.uid].flat();
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
    workers: workersCheck,
    claimTimeoutMs: integer(1, 2 ** 31 - 1),
  },
  { needs: ["request"], such: "{ request: { dtype, shape }, reply: { dtype, shape } }" },
);

const checkConnectService = optionsOf<ConnectServiceOptions>("connectService()", {
  policy: oneOf("retry", "fail"),
  retriesMax: integer(0),
  workersMax: integer(1, limits.serviceLinksMax),
  machine: oneOf("here", "any"),
  device: aDeviceName,
  stream: aStream,
  sharing: sharingCheck,
  workers: workersCheck,
});

export interface RequestOptions extends WaitOptions {
  /** Bytes, or a JSON value. */
  readonly meta?: Meta | undefined;
  /** The shape of a request that does not fill its slot. */
  readonly shape?: readonly number[] | undefined;
  /** The size in bytes of a request that does not fill its slot. */
  readonly byteLength?: number | undefined;
}

export const checkRequest = optionsOf<RequestOptions>("request()", {
  ...waitChecks,
  meta: () => {},
  shape: checkShape,
  byteLength: integer(0),
});

/** The shape of both channels of each link of a worker. */
export interface ServicePlan<Q extends DType = DType, R extends DType = DType> {
  readonly request: ChannelShape<Q>;
  readonly reply: ChannelShape<R>;
  /** Whether replies have data besides their meta. */
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

/** A channel always has memory, even if its messages have only meta. */
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
  // The worker's hello and error reports also travel in the meta of replies.
  const replyMeta = Math.max(metaBytesMax, limits.serviceReportBytesMax);
  return {
    request: channelShape(
      { ...messageOf(options.request), ...channel, metaBytesMax: ENVELOPE_BYTES + metaBytesMax },
      alignmentBytes,
    ),
    hasReplyData: options.reply !== undefined,
    reply: channelShape(
      {
        ...messageOf(options.reply ?? NO_DATA),
        ...channel,
        metaBytesMax: ENVELOPE_BYTES + replyMeta,
      },
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

function messageOf<D extends DType>({
  dtype,
  shape,
  byteLength,
}: MessageOptions<D>): MessageOptions<D> {
  return { dtype, shape, byteLength };
}
