/** `cuda-ipc gc`: lists and removes what no process holds any more. */
import type { Command } from "commander";
import { type Removal, removalOf } from "../../watch/removal.js";
import { parseTime } from "../arguments.js";
import type { CommandContext } from "../command-context.js";
import { describeAbsentHub, type ObjectSummary, tryJoinHub } from "../join-hub.js";
import { removeNames } from "../remove-names.js";
import { canAsk, confirm } from "../terminal/confirmation.js";
import { UsageError } from "../terminal/error-report.js";
import { type Column, formatTable } from "../terminal/table.js";
import type { Terminal } from "../terminal/terminal.js";
import {
  ageWords,
  contentWords,
  deviceWords,
  plural,
  sizeWords,
  userWords,
} from "../terminal/words.js";

interface GcOptions {
  readonly dryRun?: boolean;
  readonly olderThan?: number;
  readonly yes?: boolean;
  readonly json?: boolean;
}

interface Unheld {
  readonly name: string;
  readonly id: number;
  readonly unheldSinceMs: number;
  readonly object: ObjectSummary;
  readonly removal: Removal;
}

const columns: readonly Column[] = [
  { title: "NAME" },
  { title: "WHAT" },
  { title: "FREES", align: "right" },
  { title: "DEVICE" },
  { title: "USER" },
  { title: "UNUSED FOR", align: "right" },
];

const ROOT = 0;

export function addGc(program: Command, context: CommandContext): void {
  program
    .command("gc")
    .description("remove pinned objects that no process holds any more, after asking")
    .option("-n, --dry-run", "only list them, with what their removal would free")
    .option(
      "--older-than <time>",
      "only those that nobody has held for this long, such as 1h",
      parseTime,
    )
    .option("-y, --yes", "do not ask")
    .option("--json", "print JSON; needs --yes or --dry-run")
    .addHelpText(
      "after",
      "\nWithout a terminal it needs --yes or --dry-run.\n\n" +
        "Examples:\n  $ cuda-ipc gc --dry-run\n  $ cuda-ipc gc --older-than 1h\n" +
        "  $ cuda-ipc gc --older-than 7d --yes",
    )
    .action((options: GcOptions) => gc(options, context));
}

async function gc(options: GcOptions, context: CommandContext): Promise<void> {
  const { dryRun = false, yes = false, json = false, olderThan = 0 } = options;
  const { terminal, signal } = context;
  if (!dryRun && !yes && (json || !canAsk())) {
    const found = json ? "--json does not ask" : "there is no terminal to ask at";
    throw new UsageError(`${found}: add --yes to remove, or --dry-run to list`);
  }
  await using hub = await tryJoinHub(context, "gc");
  const all = hub === undefined ? [] : await hub.list({ signal });
  const unheld = unheldAmong(all, Date.now() - olderThan);
  if (hub === undefined || unheld.length === 0 || dryRun) {
    if (json) return printJson(terminal, unheld, []);
    const why = hub === undefined ? `: ${describeAbsentHub(undefined).words}` : "";
    if (unheld.length === 0) return terminal.line(`Nothing to remove${why}.`);
    return printUnheld(terminal, unheld);
  }
  if (!yes) {
    printUnheld(terminal, unheld);
    if (!(await confirm(`Remove ${plural(unheld.length, "object")}?`, context)))
      return terminal.line("Removed nothing.");
  }
  const removed: Unheld[] = [];
  for await (const one of removeNames(hub, unheld, context)) {
    removed.push(one);
    if (!json) terminal.line(`Removed "${one.name}".`);
  }
  if (json) return printJson(terminal, unheld, removed);
  terminal.line(`Freed ${sizeWords(bytesOf(removed))}.`);
}

/** Objects that this user may remove and that nobody has held since this time, largest first. */
export function unheldAmong(
  objects: readonly ObjectSummary[],
  sinceMs: number,
  uid = process.geteuid?.(),
): Unheld[] {
  const mayRemove = ({ ownerUid }: ObjectSummary) => uid === ROOT || uid === ownerUid;
  return objects
    .flatMap((object): Unheld[] => {
      const { name, unheldSinceMs } = object;
      if (unheldSinceMs === null || unheldSinceMs > sinceMs || !mayRemove(object)) return [];
      const id = object.object;
      return [{ name, id, unheldSinceMs, object, removal: removalOf(object) }];
    })
    .sort((one, other) => other.removal.bytes - one.removal.bytes);
}

function bytesOf(unheld: readonly Unheld[]): number {
  return unheld.reduce((sum, { removal }) => sum + removal.bytes, 0);
}

function printUnheld(terminal: Terminal, unheld: readonly Unheld[]): void {
  const nowMs = Date.now();
  const [titles = "", ...lines] = formatTable(
    columns,
    unheld.map(({ name, unheldSinceMs, object, removal }) => [
      name,
      contentWords(object.descriptor),
      sizeWords(removal.bytes),
      deviceWords(object.descriptor),
      userWords(object.ownerUid),
      ageWords(nowMs - unheldSinceMs),
    ]),
  );
  terminal.line(terminal.style("bold", titles));
  for (const line of lines) terminal.line(line);
  const free = sizeWords(bytesOf(unheld));
  terminal.line(`${plural(unheld.length, "object")} that nobody holds: removal frees ${free}.`);
}

/** `objects` has what was found, `removed` the names of what is gone. */
function printJson(
  terminal: Terminal,
  unheld: readonly Unheld[],
  removed: readonly Unheld[],
): void {
  terminal.json({
    objects: unheld.map(({ object, removal }) => ({ ...object, removal })),
    bytes: bytesOf(unheld),
    removed: removed.map(({ name }) => name),
    freedBytes: bytesOf(removed),
  });
}
