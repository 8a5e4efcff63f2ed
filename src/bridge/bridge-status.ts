/** What a bridge tells about itself, in pages that fit into one message. */
import { limits } from "../base/limits.js";
import type { BridgeStatus } from "../wire/bridge-messages.js";
import type { NameRecord } from "../wire/machine-records.js";
import type { RefusedName } from "./names/announcer.js";
import type { Directory } from "./names/directory.js";
import type { Fetch } from "./transfer/fetch.js";

export interface BridgeFacts {
  readonly machine: string;
  readonly namesAwayMs: number | null;
  readonly ucx: string;
  readonly transports: readonly string[];
  readonly fetches: readonly Fetch[];
  readonly refused: readonly RefusedName[];
}

/** Of each list but the names. Far below what fits beside a page of names. */
const LISTED = 16;
/** Room for the lists and for the fields around the names. */
const REST_BYTES = 32 * 1024;

export function statusOf(
  facts: BridgeFacts,
  directory: Directory,
  after: string | undefined,
): BridgeStatus {
  const records = directory.entries().map(({ record }) => record);
  const machines = machinesOf(directory, records);
  const { names, next } = pageOf(records, after);
  return {
    v: 1,
    ok: true,
    machine: facts.machine,
    namesAwayMs: facts.namesAwayMs,
    ucx: facts.ucx,
    transports: facts.transports.slice(0, LISTED),
    machines: machines.slice(0, LISTED),
    machinesLeftOut: Math.max(0, machines.length - LISTED),
    fetches: facts.fetches.slice(0, LISTED).map((fetch) => ({
      name: fetch.record.name,
      machine: fetch.record.machine,
      doneBytes: fetch.doneBytes,
      totalBytes: fetch.totalBytes,
      bytesPerSecond: fetch.bytesPerSecond,
    })),
    refused: facts.refused.slice(0, LISTED),
    names,
    next,
  };
}

function machinesOf(
  directory: Directory,
  records: readonly NameRecord[],
): BridgeStatus["machines"] {
  const counts = new Map<string, number>();
  for (const { record } of directory.machines()) counts.set(record.machine, 0);
  for (const { machine } of records) counts.set(machine, (counts.get(machine) ?? 0) + 1);
  return [...counts]
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .map(([machine, names]) => ({ machine, alive: directory.isReady(machine), names }));
}

function pageOf(
  records: readonly NameRecord[],
  after: string | undefined,
): Pick<BridgeStatus, "names" | "next"> {
  const sorted = records
    .filter(({ name }) => after === undefined || name > after)
    .sort((one, other) => (one.name < other.name ? -1 : 1));
  const names: BridgeStatus["names"] = [];
  let bytes = REST_BYTES;
  for (const { name, machine, object, descriptor } of sorted) {
    const entry = { name, machine, object, byteLength: descriptor.byteLength };
    bytes += JSON.stringify(entry).length + 1;
    if (bytes > limits.messageBytesMax) return { names, next: names.at(-1)?.name ?? null };
    names.push(entry);
  }
  return { names, next: null };
}
