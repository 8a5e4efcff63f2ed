/** `cuda-ipc hub stop`: ends the hub. With `--force` also while it is in use. */
import type { Command } from "commander";
import { socketOption } from "../arguments.js";
import type { CommandContext } from "../command-context.js";
import { absentHubSentence, describeAbsentHub, endHub, tryJoinHub } from "../join-hub.js";

interface StopOptions {
  readonly socket?: string;
  readonly force?: boolean;
}

export function addHubStop(hub: Command, context: CommandContext): void {
  hub
    .command("stop")
    .description("end the hub, unless it keeps objects or serves clients")
    .addOption(socketOption())
    .option("-f, --force", "end it anyway: names are lost, processes keep what they have mapped")
    .addHelpText("after", "\nExample:\n  $ cuda-ipc hub stop --force")
    .action((options: StopOptions) => stop(options, context));
}

async function stop(options: StopOptions, context: CommandContext): Promise<void> {
  const { terminal, signal } = context;
  // Reconnecting would end the next hub instead of this one.
  const hub = await tryJoinHub(context, "hub stop", { socket: options.socket, reconnect: false });
  if (hub === undefined) return terminal.line(absentHubSentence(describeAbsentHub(options.socket)));
  await using joined = hub;
  const { pid } = await joined.status({ signal });
  await endHub(joined, { force: options.force ?? false });
  terminal.line(`Ended hub ${pid} at ${joined.socketPath}.`);
}
