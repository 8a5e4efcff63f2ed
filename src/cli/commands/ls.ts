/** `cuda-ipc ls`: lists what is shared. */
import type { Command } from "commander";
import { hasCode } from "../../base/errors.js";
import type { Hub } from "../../client/hub.js";
import type { CopyUnderWay } from "../../wire/bridge-messages.js";
import type { CommandContext } from "../command-context.js";
import { copiesUnderWay } from "../copies-under-way.js";
import type { ObjectSummary } from "../join-hub.js";
import { describeAbsentHub, joinHubFor, tryJoinHub } from "../join-hub.js";
import { matchingNames } from "../name-pattern.js";
import { type Column, formatTable } from "../terminal/table.js";
import {
  ageWords,
  contentWords,
  copyWords,
  deviceWords,
  plural,
  sharingWords,
  shortened,
  sizeWords,
  userWords,
} from "../terminal/words.js";

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

/** Only on a terminal: a program needs whole names. */
const NAME_WIDTH_MAX = 40;

export function addLs(program: Command, context: CommandContext): void {
  program
    .command("ls")
    .description("list what is shared")
    .argument("[names...]", "only these; patterns such as 'frame-*' in quotes")
    .option("--json", "print JSON: an array with what the hub knows of each object")
    .addHelpText(
      "after",
      "\nExamples:\n  $ cuda-ipc ls 'frame-*'\n  $ cuda-ipc ls --json | jq -r '.[].name'",
    )
    .action((names: readonly string[], options: { readonly json?: boolean }) =>
      ls(names, options, context),
    );
}

async function ls(
  patterns: readonly string[],
  options: { readonly json?: boolean },
  context: CommandContext,
): Promise<void> {
  const { terminal, signal } = context;
  await using hub =
    patterns.length === 0
      ? await tryJoinHub(context, "ls")
      : await joinHubFor(context, "list", patterns.join('", "'));
  const all = hub === undefined ? [] : await hub.list({ signal });
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
    severalUsers ? [...columns, ...sharingColumns] : columns,
    objects.map((object) => [
      ...row(object, readers.get(object.name), copies.get(object.name), nowMs, nameWidthMax),
      ...(severalUsers ? sharingCells(object) : []),
    ]),
  );
  terminal.line(terminal.style("bold", titles));
  for (const line of lines) terminal.line(line);
}

function chosen(
  objects: readonly ObjectSummary[],
  patterns: readonly string[],
): readonly ObjectSummary[] {
  const names = objects.map(({ name }) => name);
  const wanted = new Set(matchingNames("list", names, patterns));
  return objects.filter(({ name }) => wanted.has(name));
}

/** The readers of each channel by its name. Channels that have ended meanwhile are left out. */
async function countReaders(
  objects: readonly ObjectSummary[],
  hub: Hub | undefined,
  signal: AbortSignal,
): Promise<ReadonlyMap<string, number>> {
  const readers = new Map<string, number>();
  const channels = objects.filter(({ descriptor }) => descriptor.content.kind === "channel");
  for (const { name } of channels) {
    try {
      const inspection = await hub?.inspect(name, { signal });
      readers.set(name, inspection?.holders.filter(({ role }) => role === "reader").length ?? 0);
    } catch (error) {
      if (!hasCode(error, "NOT_FOUND")) throw error;
    }
  }
  return readers;
}

function sharingCells({ ownerUid, sharing }: ObjectSummary): string[] {
  return [userWords(ownerUid), sharingWords(sharing)];
}

function lifetimeCell(object: ObjectSummary, copy: CopyUnderWay | undefined): string {
  const { lifetime, published, descriptor } = object;
  const state = published ? lifetime : `${lifetime}, unpublished`;
  const { replicaOf } = descriptor;
  if (replicaOf === undefined) return state;
  const progress = published || copy === undefined ? "" : `, ${copyWords(copy)}`;
  return `${state}, replica of ${replicaOf.machine}${progress}`;
}

function row(
  object: ObjectSummary,
  readers: number | undefined,
  copy: CopyUnderWay | undefined,
  nowMs: number,
  nameWidthMax: number,
): string[] {
  const { name, descriptor, leases, ownerPid, createdAtMs } = object;
  return [
    shortened(name, nameWidthMax),
    `${contentWords(descriptor)}${readers === undefined ? "" : `, ${plural(readers, "reader")}`}`,
    sizeWords(descriptor.byteLength),
    deviceWords(descriptor),
    lifetimeCell(object, copy),
    String(leases),
    ownerPid === null ? "-" : String(ownerPid),
    ageWords(nowMs - createdAtMs),
  ];
}
