/**
 * A journal in a folder of its own for each test. Call `begin` before each test, and `end` after
 * it.
 */
import type { Log } from "../../../../src/base/log-events.js";
import type {
  HubRecord,
  HubState,
  LeaseRecord,
  ObjectRecord,
  SessionRecord,
  StoredRecord,
} from "../../../../src/hub/restart/hub-records.js";
import { Journal } from "../../../../src/hub/restart/journal.js";
import { hostArray } from "../../../support/messages.js";
import { TestFolder } from "../../../support/test-folder.js";

export const BOOT = "boot";

export const session: SessionRecord = {
  t: "session",
  id: 1,
  pid: 10,
  pidNamespace: 1,
  pidfdInode: null,
  startTicks: 5,
  uid: 0,
  gid: 0,
  groups: [],
  program: "p",
};
export const lease: LeaseRecord = {
  t: "lease",
  id: 3,
  object: 2,
  session: 1,
  kind: "owner",
  sinceMs: 1,
};
export const object: ObjectRecord = {
  t: "object",
  id: 2,
  name: "frame",
  lifetime: "held",
  sharing: { with: "private", access: "read" },
  descriptor: hostArray,
  createdAtMs: 1,
  owner: { pid: 10, uid: 0, gid: 0 },
  inodes: ["1:2"],
  writable: true,
};
export const all: readonly HubRecord[] = [session, object, lease, { t: "published", object: 2 }];

export let folder: TestFolder;
export let path: string;
/** The lines of the log. */
export const lines: string[] = [];
const log: Log = (_event, message) => void lines.push(message);

export function begin(): void {
  folder = new TestFolder();
  path = folder.file("journal");
  lines.length = 0;
}

export function end(): void {
  folder[Symbol.dispose]();
}

export function open(boot = BOOT): Journal {
  return Journal.open(path, boot, log).journal;
}

export function written(records: readonly HubRecord[] = all): void {
  const journal = open();
  for (const record of records) journal.append([record]);
  journal.close();
}

export function found(boot = BOOT): HubState {
  const { journal, state } = Journal.open(path, boot, log);
  journal.close();
  return state;
}

/** Runs the slices of a rewrite when the test says so. */
export function slices(journal: Journal, snapshot: () => Iterable<StoredRecord>): () => boolean {
  const waiting: (() => void)[] = [];
  journal.keepShort(snapshot, (work) => waiting.push(work));
  return () => {
    const work = waiting.shift();
    work?.();
    return work !== undefined;
  };
}

export function rewritten(journal: Journal, snapshot: readonly HubRecord[]): void {
  const next = slices(journal, () => snapshot);
  journal.rewrite();
  while (next());
}
