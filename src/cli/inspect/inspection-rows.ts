/** What `inspect` and the dashboard tell of an object, as rows of title and text. */
import type { DType } from "../../array/dtype.js";
import type { Histogram } from "../../array/histogram.js";
import { contiguousStrides } from "../../array/layout.js";
import type { Statistics } from "../../array/statistics.js";
import { uuidOf } from "../../base/device-reference.js";
import type { ChannelStatistics } from "../../channel/channel-observer.js";
import type { Inspection } from "../../client/hub-options.js";
import type { Placement } from "../../client/objects/placement.js";
import { removalOf } from "../../watch/removal.js";
import type { CopyUnderWay } from "../../wire/bridge-messages.js";
import { channelRows } from "../channel/channel-text.js";
import type { Descriptor, Mechanism } from "../join-hub.js";
import { removalWords } from "../terminal/removal-words.js";
import {
  ageWords,
  copyWords,
  plural,
  sharingWords,
  sizeWords,
  userWords,
} from "../terminal/words.js";
import { type ArrayValues, numberText } from "./array-values.js";

export interface ArrayFacts {
  readonly name: string;
  readonly dtype: DType;
  readonly shape: readonly number[];
  /** In elements. */
  readonly strides: readonly number[];
  readonly byteOffset: number;
  readonly byteLength: number;
}

/** Facts that the hub does not have. */
export interface OpenedFacts {
  /** How far the copy of another machine's object is that this one will be. */
  readonly copy?: CopyUnderWay;
  /** Why this process could not read the memory. */
  readonly unreadable?: string;
  /** Where this process maps the memory. */
  readonly device?: {
    readonly name: string;
    readonly model: string;
    readonly reason: string;
    readonly placement: Placement;
  };
  /** The value of a timeline, a 64-bit integer in digits. */
  readonly timeline?: { readonly value: string; readonly ended: boolean };
  readonly channel?: ChannelStatistics;
  readonly metadata?: Readonly<Record<string, string>>;
  readonly arrays?: readonly ArrayFacts[];
  /** The array given with --array. */
  readonly array?: ArrayFacts;
  readonly values?: ArrayValues;
  /** Of the values, or of a sample of them. Only if it was asked for. */
  readonly histogram?: Histogram;
}

export type Row = readonly [string, string];

const mechanismWords: Readonly<Record<Mechanism, string>> = {
  memfd: "memfd: a sealed memory file that each process maps",
  vmm: "vmm: GPU memory that each process maps by a file descriptor",
  pool: "pool: an allocation of a memory pool, which each process imports by a file descriptor",
  legacy: "legacy: memory of its creator, opened by a 64-byte handle",
};

const placementWords: Readonly<Record<Placement, string>> = {
  own: "the memory is on this device",
  peer: "it reads the memory of the other device directly",
  copy: "copied now, because it cannot read the memory of the other device",
};

/** What the hub knows, and where the memory was opened. */
export function objectFacts(inspection: Inspection, opened: OpenedFacts): Row[] {
  const { object } = inspection;
  return [
    ...objectRows(inspection),
    ...memoryRows(object.descriptor, opened),
    ...holderRows(inspection),
    ["removal", removalWords(removalOf(object))],
  ];
}

/** What the memory itself tells of an object that is no bundle. */
export function contentFacts({ timeline, channel, values, unreadable }: OpenedFacts): Row[] {
  return [
    ...(timeline === undefined ? [] : [timelineRow(timeline)]),
    ...(channel === undefined ? [] : channelRows(channel)),
    ...(values === undefined ? [] : valueRows(values)),
    ...(unreadable === undefined ? [] : [["values", `not readable here: ${unreadable}`] as const]),
  ];
}

function objectRows({ object }: Inspection): Row[] {
  const { lifetime, published, createdAtMs, leases, ownerPid, ownerUid, sharing } = object;
  const { serviceUsers: workers } = object;
  const ends = lifetime === "pinned" ? "until it is removed" : "until its last holder closes it";
  return [
    [
      "state",
      `${published ? "published" : "not published yet"}, ` +
        `created ${ageWords(Date.now() - createdAtMs)} ago`,
    ],
    ["lifetime", `${lifetime}: ${ends}`],
    ["leases", String(leases)],
    ["owner", `${userWords(ownerUid)}${ownerPid === null ? "" : `, process ${ownerPid}`}`],
    ["sharing", isOnlyForUser(sharing) ? "private: only for this user" : sharingWords(sharing)],
    ...(workers === undefined
      ? []
      : [["workers", `of ${workers.map(userWords).join(", ")}`] as const]),
  ];
}

function isOnlyForUser({ with: users, machines }: Inspection["object"]["sharing"]): boolean {
  return users === "private" && machines !== true;
}

function memoryRows(descriptor: Descriptor, { copy, device, metadata }: OpenedFacts): Row[] {
  const { byteLength, allocationByteLength, mechanism, content } = descriptor;
  const allocated = sizeWords(allocationByteLength);
  const size = `${sizeWords(byteLength)} of content in ${allocated} of memory`;
  const uuid = uuidOf(descriptor.device);
  const rows: Row[] = [
    ["size", size],
    ["device", uuid],
    ["mechanism", mechanismWords[mechanism]],
  ];
  if (device !== undefined) {
    rows.push([
      "opened on",
      `${device.name} (${device.model}): ${device.reason}; ${placementWords[device.placement]}`,
    ]);
  }
  if (descriptor.replicaOf !== undefined) {
    const { machine, object } = descriptor.replicaOf;
    rows.push(["replica of", `object ${object} of machine ${machine}, as its owner says`]);
    if (copy !== undefined) rows.push(["copied", copyWords(copy)]);
  }
  if (content.kind === "array") rows.push(...layoutRows(content.array));
  for (const [key, text] of Object.entries(metadata ?? {}))
    rows.push(["metadata", `${key}: ${text}`]);
  return rows;
}

export function layoutRows(layout: Pick<ArrayFacts, "shape" | "strides" | "byteOffset">): Row[] {
  const order =
    layout.strides.join() === contiguousStrides(layout.shape).join() ? "C order" : "not in C order";
  const rows: Row[] = [["strides", `[${layout.strides.join(", ")}] in elements, ${order}`]];
  if (layout.byteOffset > 0) rows.push(["offset", `byte ${layout.byteOffset}`]);
  return rows;
}

function holderRows({ object, holders, holdersLeftOut }: Inspection): Row[] {
  const { unheldSinceMs } = object;
  if (unheldSinceMs !== null)
    return [["holders", `none for ${ageWords(Date.now() - unheldSinceMs)}`]];
  const rows: Row[] = holders.map(({ pid, program, access, role = access, place, sinceMs }, i) => {
    const what = `${role}${place === undefined ? "" : ` ${place}`}`;
    const age = ageWords(Date.now() - sinceMs);
    return [i === 0 ? "holders" : "", `process ${pid} (${program}), ${what}, for ${age}`];
  });
  if (holdersLeftOut > 0) rows.push(["", `and ${holdersLeftOut} more`]);
  return rows;
}

export function valueRows({ statistics, firstValues, sampledOf }: ArrayValues): Row[] {
  if (statistics.elementCount === 0) return [["values", "none"]];
  const more = statistics.elementCount > firstValues.length ? ", ..." : "";
  return [
    ["values", `${firstValues.join(", ")}${more}`],
    [statistics.of === "magnitude" ? "magnitude" : "range", rangeWords(statistics)],
    ["special", specialWords(statistics)],
    ...(sampledOf === undefined ? [] : [["read", readWords(statistics, sampledOf)] as const]),
  ];
}

function readWords({ elementCount }: Statistics, sampledOf: number): string {
  const all = plural(sampledOf, "element");
  return `${elementCount} of ${all}, evenly spread; --all-values reads all`;
}

function timelineRow({ value, ended }: NonNullable<OpenedFacts["timeline"]>): Row {
  return ["value", ended ? `${value}, which is final: the timeline has ended` : value];
}

function rangeWords({ min, max, mean }: Statistics): string {
  if (min === undefined || max === undefined) return "no numbers";
  const middle = mean === undefined ? "" : `, mean ${numberText(mean)}`;
  return `${numberText(min)} to ${numberText(max)}${middle}`;
}

function specialWords({ elementCount, nanCount, infiniteCount, zeroCount }: Statistics): string {
  const elements = plural(elementCount, "element");
  return `${zeroCount} zero, ${nanCount} NaN, ${infiniteCount} infinite of ${elements}`;
}
