/** Checks the options of each call of a hub before the call does anything. */
import type { DType } from "../array/dtype.js";
import type { WaitOptions } from "../base/deadline.js";
import {
  aBoolean,
  anObject,
  aString,
  type Check,
  checkFunction,
  checkMilliseconds,
  checkObject,
  checkOneOf,
  checkShape,
  integer,
  nested,
  oneOf,
  optionsOf,
  waitChecks,
} from "../base/option-checks.js";
import { shownValue } from "../base/shown-value.js";
import { checkWait } from "../base/wait-checks.js";
import { channelChecks, readerChecks } from "../channel/channel-options.js";
import { fileFormats } from "../files/file-format.js";
import type { ArrayOptions } from "../gpu/arrays/device-array.js";
import { MemoryPool } from "../gpu/memory/memory-pool.js";
import { aDeviceName, aDType } from "../gpu/option-checks.js";
import type { DescriptorContent } from "../wire/descriptor.js";
import type { Sharing } from "../wire/messages.js";
import type { ConnectOptions } from "./connect.js";
import { UID_MAX } from "./connection/hub-trust.js";
import type {
  CreateBundleOptions,
  CreateOptions,
  LoadOptions,
  OpenArrayOptions,
  OpenOptions,
  PutOptions,
  RemoveOptions,
  SaveOptions,
  SharingOptions,
} from "./hub-options.js";
import type { ListOptions } from "./objects/list-objects.js";
import type {
  CreateChannelOptions,
  OpenChannelOptions,
  ResumeChannelOptions,
} from "./objects/shared-channel.js";
import type { CreateTimelineOptions, OpenTimelineOptions } from "./objects/shared-timeline.js";

/** setTimeout fires at once for larger values. */
const TIMER_MS_MAX = 2 ** 31 - 1;

const ARRAY = { needs: ["dtype", "shape"], such: '{ dtype: "float32", shape: [2, 3] }' } as const;

const aPool: Check = (option, value) => {
  if (value instanceof MemoryPool) return;
  throw new TypeError(`${option} must be a MemoryPool of this package, not ${shownValue(value)}`);
};

const sharingFields = nested<SharingOptions>(
  {
    with: oneOf("private", "group", "all"),
    access: oneOf("read", "read-write"),
    machines: aBoolean,
  },
  { such: '{ with: "group" }' },
);

export const sharingCheck: Check = (option, value) => {
  sharingFields(option, value);
  const { with: users, access, machines } = value as SharingOptions;
  if (users !== undefined || (access === undefined && machines !== undefined)) return;
  throw new TypeError(`${option} needs the option with, such as { with: "group" }`);
};

type Layout = Omit<ArrayOptions<DType>, "mechanism">;

const arrayChecks = { dtype: aDType, shape: checkShape } as const;

function aReplace(option: string, value: unknown): void {
  checkOneOf(option, value as boolean, [true, false, "any"]);
}

const createChecks = {
  ...waitChecks,
  device: aDeviceName,
  lifetime: oneOf("held", "pinned"),
  sharing: sharingCheck,
  pool: aPool,
  preallocate: aBoolean,
  replace: aReplace,
} as const;

const findChecks = { ...waitChecks, wait: aBoolean, device: aDeviceName } as const;

const connect = optionsOf<ConnectOptions>("connect()", {
  ...waitChecks,
  socket: aString,
  hubUid: integer(0, UID_MAX),
  start: aBoolean,
  hubIdleMs: integer(0, TIMER_MS_MAX),
  reconnect: aBoolean,
  reconnectTimeoutMs: checkMilliseconds,
  device: aDeviceName,
  program: aString,
});

const create = optionsOf<Layout & CreateOptions>(
  "create()",
  { ...arrayChecks, ...createChecks },
  { ...ARRAY, such: 'create("frame", { dtype: "float32", shape: [2, 3] })' },
);

const createBundle = optionsOf<CreateBundleOptions>("createBundle()", {
  ...createChecks,
  metadata: anObject,
});

const bundledArray = nested<Layout>(arrayChecks, ARRAY);

function bundledArrays(arrays: unknown): void {
  checkObject("arrays", arrays, ', such as { weights: { dtype: "float32", shape: [2, 3] } }');
  for (const [name, options] of Object.entries(arrays)) bundledArray(`arrays.${name}`, options);
}

const openChecks = {
  ...findChecks,
  access: oneOf("read", "read-write", "copy"),
  whenUnreachable: oneOf("error", "copy"),
  from: oneOf("here", "any"),
} as const;

const put = optionsOf<PutOptions>("put()", {
  ...createChecks,
  dtype: aDType,
  shape: checkShape,
});

const fileChecks = { format: oneOf(...fileFormats), onProgress: checkFunction } as const;

const load = optionsOf<LoadOptions>("load()", {
  ...createChecks,
  ...fileChecks,
  dtype: aDType,
  shape: checkShape,
  allowLinks: aBoolean,
});

const save = optionsOf<SaveOptions>("save()", {
  ...waitChecks,
  ...fileChecks,
  array: aString,
  force: aBoolean,
  durable: aBoolean,
  wait: aBoolean,
  shardBytesMax: integer(1),
});

const open = optionsOf<OpenArrayOptions>("open()", { ...openChecks, dtype: aDType });

const openAny = optionsOf<OpenOptions>("openAny()", openChecks);

const createTimeline = optionsOf<CreateTimelineOptions>("createTimeline()", {
  ...waitChecks,
  device: aDeviceName,
  whenOwnerGone: oneOf("end", "wait"),
  sharing: sharingCheck,
  replace: aReplace,
});

const resumeTimeline = optionsOf<OpenTimelineOptions>("resumeTimeline()", findChecks);

const openTimeline = optionsOf<OpenTimelineOptions>("openTimeline()", findChecks);

const { pool: _, ...createChannelChecks } = createChecks;

const createChannel = optionsOf<CreateChannelOptions<DType>>(
  "createChannel()",
  { ...createChannelChecks, ...channelChecks },
  { such: 'createChannel("frames", { dtype: "uint8", shape: [1080, 1920, 3] })' },
);

const openChannel = optionsOf<OpenChannelOptions>("openChannel()", {
  ...findChecks,
  ...readerChecks,
  dtype: aDType,
  machine: oneOf("here", "any"),
});

const resumeChannel = optionsOf<ResumeChannelOptions>("resumeChannel()", findChecks);

const list = optionsOf<WaitOptions & ListOptions>("list()", {
  ...waitChecks,
  prefix: aString,
  all: aBoolean,
});

const remove = optionsOf<RemoveOptions>("remove()", {
  ...waitChecks,
  object: integer(1),
  unheldSinceMs: integer(0),
});

const stop = optionsOf<WaitOptions & { readonly force?: boolean }>("stop()", {
  ...waitChecks,
  force: aBoolean,
});

/** Each throws a TypeError, a RangeError, INVALID_DEVICE or UNSUPPORTED_DTYPE. */
export const checks = {
  connect,
  create,
  createBundle,
  bundledArrays,
  put,
  load,
  save,
  open,
  openAny,
  createTimeline,
  openTimeline,
  createChannel,
  openChannel,
  resumeChannel,
  resumeTimeline,
  wait: checkWait,
  list,
  remove,
  stop,
} as const;

/** The sharing of a new object as the hub takes it. @throws TypeError */
export function sharingOf(
  options: SharingOptions | undefined,
  kind: DescriptorContent["kind"],
): Sharing | undefined {
  if (options === undefined) return undefined;
  const { with: whom = "private", access = "read", machines = false } = options;
  if (kind === "timeline" && access === "read-write") {
    throw new TypeError('sharing.access of a timeline must be "read": its owner alone signals it');
  }
  if (kind === "timeline" && machines)
    throw new TypeError("sharing.machines is not for timelines: they do not cross machines");
  return machines ? { with: whom, access, machines } : { with: whom, access };
}
