/** `cuda-ipc rm NAME...`: removes names. Memory is freed when its last holder closes it. */
import type { Command } from "commander";
import type { CommandContext } from "../command-context.js";
import { joinHubFor } from "../join-hub.js";
import { isPattern, matchingNames } from "../name-pattern.js";
import { printErrors } from "../terminal/error-report.js";

export function addRm(program: Command, context: CommandContext): void {
  program
    .command("rm")
    .description("remove names; processes that have the memory open keep it until they close it")
    .argument("<names...>", "the names to remove; patterns such as 'frame-*' in quotes")
    .addHelpText("after", "\nExamples:\n  $ cuda-ipc rm weights frame\n  $ cuda-ipc rm 'frame-*'")
    .action((names: readonly string[]) => rm(names, context));
}

async function rm(names: readonly string[], context: CommandContext): Promise<void> {
  const { terminal, signal } = context;
  await using hub = await joinHubFor(context, "remove", names.join('", "'));
  const patterns = names.filter(isPattern);
  const all = patterns.length === 0 ? [] : await hub.list({ signal });
  const matching = matchingNames(
    "remove",
    all.map(({ name }) => name),
    patterns,
  );
  const plain = names.filter((name) => !isPattern(name));
  for (const name of new Set([...plain, ...matching])) {
    try {
      await hub.remove(name, { signal });
      terminal.line(`Removed "${name}".`);
    } catch (error) {
      if (signal.aborted) throw error;
      printErrors(terminal, error);
      context.exitCode = 1;
    }
  }
}
