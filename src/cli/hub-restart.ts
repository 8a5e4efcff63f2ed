/** `cuda-ipc hub restart`: another hub in the place of the one that runs, with everything that it keeps. */
import type { Command } from "commander";
import { absentHubSentence, describeAbsentHub } from "./absent-hub.js";
import type { CommandContext } from "./command-context.js";
import { tryJoinHub } from "./join-hub.js";
import { durationWords, plural } from "./words.js";

interface RestartOptions {
  readonly socket?: string;
}

export function addHubRestart(hub: Command, context: CommandContext): void {
  hub
    .command("restart")
    .description("start the hub anew, after an update for instance: names, leases and memory are as before")
    .option("--socket <path>", "the hub's socket (default: CUDA_IPC_SOCKET, else one in your runtime folder)")
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
  terminal.line(`Hub ${pid} goes on for hub ${before.pid} with ${plural(objects, "object")}, after ${took}.`);
}
