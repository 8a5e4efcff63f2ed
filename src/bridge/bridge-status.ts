/** What a bridge tells about itself, in pages that fit into one message. */
import { limits } from "../base/limits.js";
import type { BridgeStatus } from "../wire/bridge-messages.js";
import type { CarriedChannel } from "./channels/carried-channel.js";
import type { RefusedName } from "./names/announcer.js";
import type { Directory } from "./names/directory.js";
import type { KnownService } from "./names/mirror.js";
import type { FarWorkers } from "./services/far-workers.js";
import type { ExportServer } from "./transfer/export-server.js";
import type { Fetch } from "./transfer/fetch.js";

export interface BridgeFacts {
  readonly machine: string;
  readonly namesAwayMs: number | null;
  readonly ucx: string;
  readonly transports: readonly string[];
  readonly fetches: readonly Fetch[];
  readonly refused: readonly RefusedName[];
  readonly carried: readonly CarriedChannel[];
  readonly serving: readonly Pick<ExportServer, "carried" | "claimed">[];
  readonly workers: Pick<FarWorkers, "countOf">;
}

/** Of each list but the names. All of them are far below what fits into a message. */
const LISTED = 16;
/** The fields `names` and `next`, without the names. `next` is a name. */
const FIELDS_BYTES = 64 + limits.nameBytesMax;

export function statusOf(
  facts: BridgeFacts,
  directory: Directory,
  after: string | undefined,
): BridgeStatus {
  const machines = machinesOf(directory);
  const services = [...directory.services()].sort(
    by(({ record: { service, machine } }) => `${service} ${machine}`),
  );
  const channels = channelsOf(facts);
  const rest = {
    v: 1,
    ok: true,
    machine: facts.machine,
    namesAwayMs: facts.namesAwayMs,
    ucx: facts.ucx,
    transports: facts.transports.slice(0, LISTED),
    machines: machines.slice(0, LISTED),
    machinesLeftOut: leftOut(machines),
    fetches: facts.fetches.slice(0, LISTED).map((fetch) => ({
      name: fetch.record.name,
      machine: fetch.record.machine,
      doneBytes: fetch.doneBytes,
      totalBytes: fetch.totalBytes,
      bytesPerSecond: fetch.bytesPerSecond,
    })),
    services: servicesOf(facts, services.slice(0, LISTED)),
    servicesLeftOut: leftOut(services),
    channels: channels.slice(0, LISTED),
    channelsLeftOut: leftOut(channels),
    refused: facts.refused.slice(0, LISTED),
  } as const;
  return { ...rest, ...pageOf(directory, after, JSON.stringify(rest).length) };
}

function leftOut(list: readonly unknown[]): number {
  return Math.max(0, list.length - LISTED);
}

function machinesOf(directory: Directory): BridgeStatus["machines"] {
  return directory.machineNames().map((machine) => ({
    machine,
    alive: directory.isReady(machine),
    names: directory.namesOf(machine),
    version: directory.versionOf(machine),
  }));
}

function servicesOf(facts: BridgeFacts, known: readonly KnownService[]): BridgeStatus["services"] {
  const claimed = facts.serving.flatMap((it) => it.claimed);
  return known.map(({ record: { service, machine } }) => {
    const isOwn = machine === facts.machine;
    const workersUsed = isOwn
      ? claimed.filter((it) => it === service).length
      : facts.workers.countOf(service, machine);
    return { service, machine, workersUsed };
  });
}

function channelsOf({ carried, serving }: BridgeFacts): BridgeStatus["channels"] {
  const coming = carried.map(({ record: { name, machine }, messages }) => {
    return { name, direction: "in", machine, messages } as const;
  });
  const going = serving.flatMap((it) => it.carried);
  const channels = [...coming, ...going].map((it) => ({
    ...it,
    // WHY a limit: a writer may give its last message any number.
    messages: Math.min(it.messages, Number.MAX_SAFE_INTEGER),
  }));
  return channels.sort(by(({ name, machine }) => `${name} ${machine}`));
}

/** As many names after this one as fit beside the rest. */
function pageOf(
  directory: Directory,
  after: string | undefined,
  restBytes: number,
): Pick<BridgeStatus, "names" | "next"> {
  const names: BridgeStatus["names"] = [];
  let bytes = restBytes + FIELDS_BYTES;
  for (const { record } of directory.entriesAfter(after)) {
    const { name, machine, object, descriptor } = record;
    const entry = { name, machine, object, byteLength: descriptor.byteLength };
    bytes += JSON.stringify(entry).length + 1;
    if (bytes > limits.messageBytesMax) return { names, next: names.at(-1)?.name ?? null };
    names.push(entry);
  }
  return { names, next: null };
}

function by<T>(keyOf: (item: T) => string): (one: T, other: T) => number {
  return (one, other) => {
    const [first, second] = [keyOf(one), keyOf(other)];
    return first < second ? -1 : first > second ? 1 : 0;
  };
}
