/** `cuda-ipc ls`: lists what is shared. */
import type { Command } from "commander";
import { hasCode } from "../../base/errors.js";
import type { Hub } from "../../client/hub.js";
import type { CopyUnderWay } from "../../wire/bridge-messages.js";
import type { CommandContext } from "../command-context.js";
import { copiesUnderWay } from "../copies-under-way.js";
import type { HeldObject, ObjectSummary } from "../join-hub.js";
import { describeAbsentHub, joinHubFor, tryJoinHub } from "../join-hub.js";
import { matchingNames } from "../name-pattern.js";
import { type Column, formatTable } from "../terminal/table.js";
import {
  ageWords,
  contentWords,
  copyWords,
  deviceWords,
  lifetimeWords,
  nameWords,
  plural,
  sharingWords,
  shortened,
  sizeWords,
  userWords,
} from "../terminal/words.js";
import { holdersWords } from "../top/top-words.js";

const columns: readonly Column[] = [
  { title: "NAME" },
  { title: "WHAT" },
  { title: "SIZE", align: "right" },
  { title: "DEVICE" },
  { title: "LIFETIME" },
  { title: "LEASES", align: "right" },
  { title: "OWNER", align: "right" },
  { title: "AGE", align: "right" },
];

/** Shown only if an object belongs to another user, or is shared with one or with machines. */
const sharingColumns: readonly Column[] = [{ title: "USER" }, { title: "SHARED" }];

/** Only with `--all`. */
const holdersColumn: Column = { title: "HELD BY" };

/** Only on a terminal: a program needs whole names. */
const NAME_WIDTH_MAX = 40;

interface LsOptions {
  readonly all?: boolean;
  readonly json?: boolean;
}

export function addLs(program: Command, context: CommandContext): void {
  program
    .command("ls")
    .description("list what is shared")
    .argument("[names...]", "only these; patterns such as 'frame-*' in quotes")
    .option("-a, --all", "also objects without a name that are still held, and who holds what")
    .option("--json", "print JSON: an array with what the hub knows of each object")
    .addHelpText(
      "after",
      "\nAn object that was removed or replaced has no name. It is listed by its last name, as " +
        "(NAME), and ends with its last holder.\n\nExamples:\n  $ cuda-ipc ls 'frame-*'\n" +
        "  $ cuda-ipc ls --all\n  $ cuda-ipc ls --json | jq -r '.[].name'",
    )
    .action((names: readonly string[], options: LsOptions) => ls(names, options, context));
}

async function ls(
  patterns: readonly string[],
  options: LsOptions,
  context: CommandContext,
): Promise<void> {
  const { terminal, signal } = context;
  await using hub =
    patterns.length === 0
      ? await tryJoinHub(context, "ls")
      : await joinHubFor(context, "list", patterns.join('", "'));
  const all = hub === undefined ? [] : await hub.list({ all: options.all, signal });
  const objects = patterns.length === 0 ? all : chosen(all, patterns);
  if (options.json) return terminal.json(objects);
  if (objects.length === 0) {
    const why = hub === undefined ? `: ${describeAbsentHub(undefined).words}` : "";
    return terminal.line(`Nothing is shared${why}.`);
  }
  const readers = await countReaders(objects, hub, signal);
  const copies = await copiesUnderWay(objects, signal);
  const nowMs = Date.now();
  const nameWidthMax = terminal.isRead ? NAME_WIDTH_MAX : Number.POSITIVE_INFINITY;
  const severalUsers = objects.some(
    ({ ownerUid, sharing }) =>
      ownerUid !== process.geteuid?.() || sharing.with !== "private" || sharing.machines === true,
  );
  const [titles = "", ...lines] = formatTable(
    [...columns, ...(options.all ? [holdersColumn] : []), ...(severalUsers ? sharingColumns : [])],
    objects.map((object) => [
      ...row(object, readers.get(object.object), copies.get(object.name), nowMs, nameWidthMax),
      ...(options.all ? [heldBy(object)] : []),
      ...(severalUsers ? sharingCells(object) : []),
    ]),
  );
  terminal.line(terminal.style("bold", titles));
  for (const line of lines) terminal.line(line);
}

function chosen(
  objects: readonly HeldObject[],
  patterns: readonly string[],
): readonly HeldObject[] {
  const names = objects.map(({ name }) => name);
  const wanted = new Set(matchingNames("list", names, patterns));
  return objects.filter(({ name }) => wanted.has(name));
}

/** The readers of each channel by its number. Channels that have ended meanwhile are left out. */
async function countReaders(
  objects: readonly HeldObject[],
  hub: Hub | undefined,
  signal: AbortSignal,
): Promise<ReadonlyMap<number, number>> {
  const readers = new Map<number, number>();
  const channels = objects.filter(({ descriptor }) => descriptor.content.kind === "channel");
  for (const { name, object, nameless, holders: listed = [] } of channels) {
    try {
      // WHY asked again: a list has fewer holders of each object than an inspection has.
      const inspection = nameless ? undefined : await hub?.inspect(name, { signal });
      const holders = inspection?.holders ?? listed;
      readers.set(object, holders.filter(({ role }) => role === "reader").length);
    } catch (error) {
      if (!hasCode(error, "NOT_FOUND")) throw error;
    }
  }
  return readers;
}

function sharingCells({ ownerUid, sharing }: ObjectSummary): string[] {
  return [userWords(ownerUid), sharingWords(sharing)];
}

function heldBy({ holders = [], leases }: HeldObject): string {
  return holdersWords({ holders, leases });
}

function lifetimeCell(object: HeldObject, copy: CopyUnderWay | undefined): string {
  const { published, descriptor } = object;
  const state = lifetimeWords(object);
  const { replicaOf } = descriptor;
  if (replicaOf === undefined) return state;
  const progress = published || copy === undefined ? "" : `, ${copyWords(copy)}`;
  return `${state}, replica of ${replicaOf.machine}${progress}`;
}

function row(
  object: HeldObject,
  readers: number | undefined,
  copy: CopyUnderWay | undefined,
  nowMs: number,
  nameWidthMax: number,
): string[] {
  const { descriptor, leases, ownerPid, createdAtMs } = object;
  return [
    shortened(nameWords(object), nameWidthMax),
    `${contentWords(descriptor)}${readers === undefined ? "" : `, ${plural(readers, "reader")}`}`,
    sizeWords(descriptor.byteLength),
    deviceWords(descriptor),
    lifetimeCell(object, copy),
    String(leases),
    ownerPid === null ? "-" : String(ownerPid),
    ageWords(nowMs - createdAtMs),
  ];
}
