/** `cuda-ipc hub stop`: ends the hub, with `--force` also while it is used. */
import type { Command } from "commander";
import { absentHubSentence, describeAbsentHub } from "./absent-hub.js";
import type { CommandContext } from "./command-context.js";
import { endHub } from "./end-hub.js";
import { tryJoinHub } from "./join-hub.js";

interface StopOptions {
  readonly socket?: string;
  readonly force?: boolean;
}

export function addHubStop(hub: Command, context: CommandContext): void {
  hub
    .command("stop")
    .description("end the hub, unless it keeps objects or serves clients")
    .option("--socket <path>", "the hub's socket (default: CUDA_IPC_SOCKET, else one in your runtime folder)")
    .option("-f, --force", "end it all the same: names are gone, what processes have mapped stays theirs")
    .addHelpText("after", "\nExample:\n  $ cuda-ipc hub stop --force")
    .action((options: StopOptions) => stop(options, context));
}

async function stop(options: StopOptions, context: CommandContext): Promise<void> {
  const { terminal, signal } = context;
  // WHY not at the next hub: it is this one that is to end.
  const hub = await tryJoinHub(context, "hub stop", { socket: options.socket, reconnect: false });
  if (hub === undefined) return terminal.line(absentHubSentence(describeAbsentHub(options.socket)));
  await using joined = hub;
  const { pid } = await joined.status({ signal });
  await endHub(joined, { force: options.force ?? false });
  terminal.line(`Ended hub ${pid} at ${joined.socketPath}.`);
}
