/** `cuda-ipc rm NAME...`: removes names. Memory is freed when its last holder closes it. */
import type { Command } from "commander";
import type { CommandContext } from "../command-context.js";
import { joinHubFor } from "../join-hub.js";
import { isPattern, matchingNames } from "../name-pattern.js";
import { removeNames } from "../remove-names.js";

export function addRm(program: Command, context: CommandContext): void {
  program
    .command("rm")
    .description("remove names; processes that have the memory open keep it until they close it")
    .argument("<names...>", "the names to remove; patterns such as 'frame-*' in quotes")
    .addHelpText("after", "\nExamples:\n  $ cuda-ipc rm weights frame\n  $ cuda-ipc rm 'frame-*'")
    .action((names: readonly string[]) => rm(names, context));
}

async function rm(names: readonly string[], context: CommandContext): Promise<void> {
  const { signal } = context;
  await using hub = await joinHubFor(context, "remove", names.join('", "'));
  const patterns = names.filter(isPattern);
  const all = patterns.length === 0 ? [] : await hub.list({ signal });
  const matching = matchingNames(
    "remove",
    all.map(({ name }) => name),
    patterns,
  );
  const plain = names.filter((name) => !isPattern(name));
  const chosen = [...new Set([...plain, ...matching])].map((name) => ({ name }));
  for await (const { name } of removeNames(hub, chosen, context))
    context.terminal.line(`Removed "${name}".`);
}
