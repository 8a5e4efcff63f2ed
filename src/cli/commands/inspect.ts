/** `cuda-ipc inspect NAME`: prints everything about one shared object, including its values. */
import type { Command } from "commander";
import { CudaIpcError } from "../../base/errors.js";
import { spareHoles } from "../../gpu/transfer/lane.js";
import { removalOf } from "../../watch/removal.js";
import type { CommandContext } from "../command-context.js";
import { copiesUnderWay } from "../copies-under-way.js";
import type { OpenedFacts } from "../inspect/inspection-rows.js";
import { printInspection } from "../inspect/inspection-text.js";
import { type MemoryOptions, openedFacts } from "../inspect/opened-facts.js";
import { joinHubFor } from "../join-hub.js";

interface InspectOptions extends MemoryOptions {
  readonly json?: boolean;
  readonly all?: boolean;
}

export function addInspect(program: Command, context: CommandContext): void {
  program
    .command("inspect")
    .description(
      "print everything about a shared object: layout, device, who holds it since when, " +
        "what its removal would free, and statistics of its values",
    )
    .argument("<name>", "the name to inspect")
    .option("-a, --array <array>", "print one array of a bundle, with statistics of its values")
    .option("-d, --device <device>", "read it from this GPU instead of the one it is on")
    .option("--histogram", "also print how often which values occur")
    .option("--all-values", "read all values of an array over 1 GiB, not just a sample")
    .option("--all", "print all arrays of a bundle, not just the first 20")
    .option("--json", "print JSON")
    .addHelpText(
      "after",
      "\nExamples:\n  $ cuda-ipc inspect weights\n" +
        "  $ cuda-ipc inspect weights --histogram\n" +
        "  $ cuda-ipc inspect weights --array model.embedding --json",
    )
    .action((name: string, options: InspectOptions) => inspect(name, options, context));
}

async function inspect(
  name: string,
  options: InspectOptions,
  context: CommandContext,
): Promise<void> {
  spareHoles();
  await using hub = await joinHubFor(context, "inspect", name);
  const inspection = await hub.inspect(name, { signal: context.signal });
  const copies = await copiesUnderWay([inspection.object], context.signal);
  const copy = copies.get(name);
  const facts = await openedFacts(hub, inspection, options, context);
  if (options.histogram && facts.values === undefined && facts.unreadable === undefined)
    throw withoutValues(name, facts);
  const opened = copy === undefined ? facts : { ...facts, copy };
  const removal = removalOf(inspection.object);
  if (options.json) context.terminal.json({ ...inspection, removal, ...opened });
  else printInspection(context.terminal, inspection, opened, options.all ?? false);
}

function withoutValues(name: string, { arrays }: OpenedFacts): CudaIpcError {
  const what = arrays === undefined ? "it is no array" : "choose an array of it with --array";
  return new CudaIpcError("WRONG_KIND", `Cannot print a histogram of "${name}": ${what}`);
}
