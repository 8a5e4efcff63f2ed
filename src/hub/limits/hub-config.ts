/**
 * The fields of a hub's configuration file, checked one by one, and the policy that they make.
 * Flags of the command line are such fields too, and override those of the file.
 */
import * as v from "valibot";
import { parseBytes } from "../../base/bytes.js";
import { CudaIpcError } from "../../base/errors.js";
import { limits } from "../../base/limits.js";
import { type LogFormat, type LogLevel, logFormats, logLevels } from "../../base/log-events.js";
import type { IdLookup } from "../../os/accounts.js";
import { defaultQuotas, type HubPolicy, servesOthers, shareOf } from "./policy.js";
import { type Level, type Quota, quotaFields } from "./quota.js";

export interface AccountNames {
  readonly users: IdLookup;
  readonly groups: IdLookup;
}

type Quotas = Readonly<Partial<Quota>>;

/** The checked fields of one source. Missing fields keep the value of another source. */
export interface HubConfig {
  readonly socket?: string;
  /** `Infinity` means that the hub never ends for being idle. */
  readonly idleMs?: number;
  readonly logLevel?: LogLevel;
  readonly logFormat?: LogFormat;
  readonly users?: HubPolicy["users"];
  readonly groups?: ReadonlySet<number>;
  readonly limits: Readonly<Record<Level, Quotas>>;
  readonly userLimits: ReadonlyMap<number, Quotas>;
}

export const NO_CONFIG: HubConfig = {
  limits: { hub: {}, user: {}, client: {} },
  userLimits: new Map(),
};

const IDLE_MS_MAX = 2 ** 31 - 1;
const UNLIMITED = "unlimited";

/** A field whose message says what was wanted, so that all errors read alike. */
function field<T>(
  wanted: string,
  read: (value: unknown) => T | undefined,
): v.GenericSchema<unknown, T> {
  return v.pipe(
    v.unknown(),
    v.rawTransform(({ dataset, addIssue, NEVER }) => {
      const read_ = read(dataset.value);
      if (read_ !== undefined) return read_;
      addIssue({ message: wanted });
      return NEVER;
    }),
  );
}

/** Checked first, because valibot takes an array for an object without fields. */
function plainObject(wanted: string): v.GenericSchema<object> {
  return v.custom<object>(
    (value) => typeof value === "object" && value !== null && !Array.isArray(value),
    wanted,
  );
}

function fields<Entries extends v.ObjectEntries>(entries: Entries) {
  const wanted = `an object with any of ${Object.keys(entries).join(", ")}`;
  return v.pipe(plainObject(wanted), v.strictObject(entries, wanted));
}

function oneOf<const T extends string>(words: readonly T[]) {
  return field(`one of ${words.join(", ")}`, (value) => words.find((word) => word === value));
}

const bytes = field(`a number of bytes, a size such as "64GiB", or "${UNLIMITED}"`, (value) =>
  typeof value === "string" && value !== UNLIMITED ? parseBytes(value) : countOf(value, 0),
);
const count = field(`an integer from 0, or "${UNLIMITED}"`, (value) => countOf(value, 0));
const rate = field(`an integer from 1, or "${UNLIMITED}"`, (value) => countOf(value, 1));

const quotaEntries = {
  clients: v.optional(count),
  objects: v.optional(count),
  descriptors: v.optional(count),
  leases: v.optional(count),
  waitingOpens: v.optional(count),
  unreadBytes: v.optional(bytes),
  unreadDescriptors: v.optional(count),
  hostBytes: v.optional(bytes),
  deviceBytes: v.optional(bytes),
  messagesPerSecond: v.optional(rate),
} satisfies Record<keyof Quota, unknown>;
const quota = fields(quotaEntries);
const { clients: _, ...clientEntries } = quotaEntries;

const account = field("the name or number of one", (value) =>
  typeof value === "string" || typeof value === "number" ? value : undefined,
);

const schema = fields({
  socket: v.optional(
    field(`an absolute path of at most ${limits.socketPathBytesMax} bytes`, (value) =>
      typeof value === "string" &&
      value.startsWith("/") &&
      Buffer.byteLength(value) <= limits.socketPathBytesMax
        ? value
        : undefined,
    ),
  ),
  idleMs: v.optional(
    field(`an integer from 0 to ${IDLE_MS_MAX}, or null for a hub that stays`, (value) => {
      if (value === null) return Number.POSITIVE_INFINITY;
      return typeof value === "number" && value <= IDLE_MS_MAX ? countOf(value, 0) : undefined;
    }),
  ),
  logLevel: v.optional(oneOf(logLevels)),
  logFormat: v.optional(oneOf(logFormats)),
  users: v.optional(v.union([v.literal("all"), v.array(account)], 'a list of users, or "all"')),
  groups: v.optional(v.array(account, "a list of groups")),
  limits: v.optional(
    fields({
      hub: v.optional(quota),
      user: v.optional(quota),
      client: v.optional(fields(clientEntries)),
    }),
  ),
  userLimits: v.optional(
    v.pipe(plainObject("an object of limits by user"), v.record(v.string(), quota)),
  ),
});

function countOf(value: unknown, min: number): number | undefined {
  if (value === UNLIMITED) return Number.POSITIVE_INFINITY;
  return typeof value === "number" && Number.isSafeInteger(value) && value >= min
    ? value
    : undefined;
}

/**
 * @param source what has these fields, such as "the configuration /etc/cuda-ipc/hub.json"
 * @throws INVALID_FILE with the path of the field, the value found and the value wanted
 */
export function checkHubConfig(source: string, value: unknown, names: AccountNames): HubConfig {
  const result = v.safeParse(schema, value, { abortEarly: true });
  if (!result.success) throw refuse(source, result.issues[0]);
  const { users, groups, limits, userLimits, ...others } = result.output;
  const idsOf = (
    path: string,
    wanted: string,
    lookup: IdLookup,
    list: readonly (string | number)[],
  ) => new Set(list.map((item, index) => idOf(source, `${path}.${index}`, wanted, lookup, item)));
  return {
    ...setOf(others),
    ...(users === undefined
      ? {}
      : { users: users === "all" ? users : idsOf("users", USER, names.users, users) }),
    ...(groups === undefined ? {} : { groups: idsOf("groups", GROUP, names.groups, groups) }),
    limits: { hub: setOf(limits?.hub), user: setOf(limits?.user), client: setOf(limits?.client) },
    userLimits: limitsById(source, names.users, userLimits ?? {}),
  };
}

const USER = "a user of /etc/passwd, or a number";
const GROUP = "a group of /etc/group, or a number";

function idOf(
  source: string,
  path: string,
  wanted: string,
  lookup: IdLookup,
  item: string | number,
): number {
  const id = lookup(item);
  if (id !== undefined) return id;
  throw invalid(source, path, JSON.stringify(item), wanted);
}

function limitsById(
  source: string,
  lookup: IdLookup,
  limits: Readonly<Record<string, Partial<Record<string, number | undefined>>>>,
): Map<number, Quotas> {
  const byId = new Map<number, Quotas>();
  for (const [name, quota] of Object.entries(limits)) {
    const uid = idOf(source, "userLimits", USER, lookup, name);
    if (byId.has(uid))
      throw invalid(source, `userLimits.${name}`, `user ${uid} a second time`, "each user once");
    byId.set(uid, setOf(quota));
  }
  return byId;
}

type Defined<T> = { readonly [K in keyof T]?: Exclude<T[K], undefined> };

/** The fields that have a value. */
function setOf<T extends object>(fields: T | undefined): Defined<T> {
  const found = Object.entries(fields ?? {}).filter(([, value]) => value !== undefined);
  return Object.fromEntries(found) as Defined<T>;
}

function refuse(source: string, issue: v.BaseIssue<unknown>): CudaIpcError {
  const path = v.getDotPath(issue) ?? "the document";
  if (issue.expected === "never") {
    // The message lists the fields that the object may have.
    return invalid(source, path, "no field of a hub's configuration", issue.message);
  }
  return invalid(source, path, valueWords(issue.input), issue.message);
}

function valueWords(value: unknown): string {
  const text = JSON.stringify(value) ?? String(value);
  return text.length > 80 ? `${text.slice(0, 80)}...` : text;
}

function invalid(source: string, path: string, found: string, wanted: string): CudaIpcError {
  return new CudaIpcError(
    "INVALID_FILE",
    `Cannot use ${source}: ${path} is ${found}, wanted ${wanted}`,
  );
}

/** Overrides the fields of the first with those of the second. Limits are overridden one by one. */
export function overlay(first: HubConfig, second: HubConfig): HubConfig {
  const userLimits = new Map(first.userLimits);
  for (const [uid, quota] of second.userLimits)
    userLimits.set(uid, { ...userLimits.get(uid), ...quota });
  const limitsOf = (level: Level) => ({ ...first.limits[level], ...second.limits[level] });
  const limits = { hub: limitsOf("hub"), user: limitsOf("user"), client: limitsOf("client") };
  return { ...first, ...second, limits, userLimits };
}

export function policyOf(uid: number, config: HubConfig, quotas = defaultQuotas): HubPolicy {
  const users = config.users ?? new Set<number>();
  const groups = config.groups ?? new Set<number>();
  const hub: Quota = { ...quotas.hub, ...config.limits.hub };
  const user: Quota = {
    ...(servesOthers({ users, groups }) ? shareOf(hub) : quotas.user),
    ...config.limits.user,
  };
  return {
    uid,
    users,
    groups,
    limits: { hub, user, client: { ...quotas.client, ...config.limits.client } },
    userLimits: new Map([...config.userLimits].map(([id, quota]) => [id, { ...user, ...quota }])),
  };
}

export function isQuotaField(name: string): name is keyof Quota {
  return (quotaFields as readonly string[]).includes(name);
}
