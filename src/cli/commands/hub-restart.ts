/** `cuda-ipc hub restart`: replaces the running hub by a new one that keeps everything. */
import type { Command } from "commander";
import { socketOption } from "../arguments.js";
import type { CommandContext } from "../command-context.js";
import { absentHubSentence, describeAbsentHub, tryJoinHub } from "../join-hub.js";
import { durationWords, plural } from "../terminal/words.js";

interface RestartOptions {
  readonly socket?: string;
}

export function addHubRestart(hub: Command, context: CommandContext): void {
  hub
    .command("restart")
    .description("restart the hub, for example after an update; names, leases and memory stay")
    .addOption(socketOption())
    .addHelpText("after", "\nExample:\n  $ cuda-ipc hub restart")
    .action((options: RestartOptions) => restart(options, context));
}

async function restart({ socket }: RestartOptions, context: CommandContext): Promise<void> {
  const { terminal, signal } = context;
  const hub = await tryJoinHub(context, "hub restart", { socket });
  if (hub === undefined) return terminal.line(absentHubSentence(describeAbsentHub(socket)));
  await using joined = hub;
  const before = await joined.status({ signal });
  const startMs = performance.now();
  const { pid, objects } = await joined.restart({ signal });
  const took = durationWords(performance.now() - startMs);
  terminal.line(
    `Hub ${pid} replaced hub ${before.pid} in ${took} and keeps ${plural(objects, "object")}.`,
  );
}
