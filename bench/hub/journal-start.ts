/**
 * Measures a hub that starts from the journal of a large killed hub, and the pauses while it
 * rewrites such a journal. All sessions belong to this process, so that the next hub finds it
 * alive.
 */
import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { limits } from "../../src/base/limits.js";
import { type HubState, recordsOf } from "../../src/hub/restart/hub-records.js";
import { Journal } from "../../src/hub/restart/journal.js";
import { connect } from "../../src/index.js";
import { ownIdentity } from "../../src/os/process-identity.js";
import type { Row } from "../measure.js";
import { HubProcess } from "./hub-process.js";

export interface JournalStartOptions {
  readonly objects: number;
  /** Includes one lease of the owner for each object. */
  readonly leases: number;
  readonly sessions: number;
  readonly starts: number;
}

/** The limits of a hub. */
const FULL: JournalStartOptions = {
  objects: limits.hubObjectsMax,
  leases: limits.hubLeasesMax,
  sessions: 1000,
  starts: 5,
};
const MiB = 1024 * 1024;
const START_GOAL_MS = 1000;
const SLICE_GOAL_MS = 100;
const FIRST_ID = 1000;

export async function journalStart(options: JournalStartOptions = FULL): Promise<Row[]> {
  const { objects, leases, starts } = options;
  const scale = `${objects} objects, ${leases} leases`;
  const folder = mkdtempSync(join(tmpdir(), "cuda-ipc-bench-"));
  try {
    const socket = join(folder, "hub.sock");
    const path = `${socket}.journal`;
    const { journal } = Journal.open(path, ownIdentity().bootId, () => {});
    writeJournal(journal, options);
    journal.close();
    const byteLength = statSync(path).size;
    const all: number[] = [];
    for (let start = 0; start < starts; start += 1) all.push(await startMs(socket, objects));
    const startsMs = all.sort((one, other) => one - other)[Math.floor(starts / 2)] ?? Number.NaN;
    const { slices, longestMs, totalMs } = rewriteTimes(path);
    return [
      { what: `journal, ${scale}`, value: byteLength / MiB, unit: "MiB" },
      {
        what: `start after a crash, until it listens, ${scale}, median of ${starts}`,
        value: startsMs,
        unit: "ms",
        goal: "under a second",
        met: startsMs < START_GOAL_MS,
      },
      { what: `writing it anew, ${slices} slices, together`, value: totalMs, unit: "ms" },
      {
        what: "the longest of these slices",
        value: longestMs,
        unit: "ms",
        goal: "under 100 ms",
        met: longestMs < SLICE_GOAL_MS,
      },
    ];
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function startMs(socket: string, objects: number): Promise<number> {
  await using hub = await HubProcess.start({ socket });
  await using client = await connect({ socket, device: "host", start: false });
  const status = await client.status();
  if (status.objects !== objects)
    throw new Error(`The hub has ${status.objects} objects, not ${objects}`);
  return hub.startMs;
}

function rewriteTimes(path: string): { slices: number; longestMs: number; totalMs: number } {
  const { journal, state } = Journal.open(path, ownIdentity().bootId, () => {});
  const times: number[] = [];
  const waiting: (() => void)[] = [];
  journal.keepShort(
    () => recordsOf(state),
    (work) => waiting.push(work),
  );
  journal.rewrite();
  for (let work = waiting.shift(); work !== undefined; work = waiting.shift()) {
    const beforeMs = performance.now();
    work();
    times.push(performance.now() - beforeMs);
  }
  journal.close();
  return {
    slices: times.length,
    longestMs: Math.max(...times),
    totalMs: times.reduce((sum, ms) => sum + ms, 0),
  };
}

/**
 * Two thirds written by a rewrite, the rest appended since. A longer journal would be rewritten.
 */
function writeJournal(journal: Journal, options: JournalStartOptions): void {
  const { sessions, objects, leases, lastId } = stateOf(options);
  const isOld = ({ id }: { readonly id: number }) => id % 3 > 0;
  const old = {
    sessions,
    objects: new Map([...objects].filter(([id]) => isOld({ id }))),
    leases: new Map([...leases].filter(([, lease]) => isOld({ id: lease.object }))),
    lastId,
  };
  const waiting: (() => void)[] = [];
  journal.keepShort(
    () => recordsOf(old),
    (work) => waiting.push(work),
  );
  journal.rewrite();
  for (let work = waiting.shift(); work !== undefined; work = waiting.shift()) work();
  for (const { record } of objects.values()) {
    if (!isOld(record)) journal.append([record, { t: "published", object: record.id }]);
  }
  for (const lease of leases.values()) if (!isOld({ id: lease.object })) journal.append([lease]);
}

function stateOf({ objects, leases, sessions }: JournalStartOptions): HubState {
  const { pid, pidNamespace, startTicks } = ownIdentity();
  const [uid, gid] = [process.geteuid?.() ?? 0, process.getegid?.() ?? 0];
  const state: HubState = { sessions: new Map(), objects: new Map(), leases: new Map(), lastId: 0 };
  for (let index = 0; index < sessions; index += 1) {
    const id = FIRST_ID + index;
    const peer = { pid, pidNamespace, pidfdInode: null, startTicks, uid, gid, groups: [] };
    state.sessions.set(id, { t: "session", id, ...peer, program: "bench" });
  }
  for (let index = 0; index < objects; index += 1) {
    const id = FIRST_ID + sessions + index;
    state.objects.set(id, {
      published: true,
      named: true,
      record: {
        t: "object",
        id,
        name: `model.layer-${index}`,
        lifetime: "held",
        sharing: { with: "private", access: "read" },
        descriptor: {
          version: 1,
          device: { kind: "host" },
          mechanism: "memfd",
          byteLength: 16_384,
          allocationByteLength: 16_384,
          content: {
            kind: "array",
            array: { dtype: "float32", shape: [64, 64], strides: [64, 1], byteOffset: 0 },
          },
        },
        createdAtMs: Date.now(),
        owner: { pid, uid, gid },
        inodes: [`1:${index}`],
        writable: true,
      },
    });
  }
  for (let index = 0; index < leases; index += 1) {
    const id = FIRST_ID + sessions + objects + index;
    const object = FIRST_ID + sessions + (index % objects);
    const kind = index < objects ? "owner" : "read";
    const session = FIRST_ID + (index % sessions);
    state.leases.set(id, { t: "lease", id, object, session, kind, sinceMs: 1_700_000_000_000 });
  }
  return state;
}
