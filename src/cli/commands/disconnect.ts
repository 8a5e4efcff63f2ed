/** `cuda-ipc disconnect PID...`: ends sessions of clients. Their processes go on. */
import { type Command, InvalidArgumentError } from "commander";
import { CudaIpcError } from "../../base/errors.js";
import { HubWatch } from "../../watch/hub-watch.js";
import type { WatchedClient } from "../../watch/snapshot.js";
import { socketOption } from "../arguments.js";
import type { CommandContext } from "../command-context.js";
import { printErrors } from "../terminal/error-report.js";
import { processWords } from "../top/top-words.js";

interface DisconnectOptions {
  readonly socket?: string;
}

export function addDisconnect(program: Command, context: CommandContext): void {
  program
    .command("disconnect")
    .description("end the sessions of processes on the hub; the processes themselves go on")
    .argument(
      "<pids...>",
      "the numbers of processes, or of sessions as in the hub's log",
      parsePids,
    )
    .addOption(socketOption())
    .addHelpText("after", "\nExample:\n  $ cuda-ipc disconnect 4242")
    .action((pids: readonly number[], options: DisconnectOptions) =>
      disconnect(pids, options, context),
    );
}

async function disconnect(
  pids: readonly number[],
  { socket }: DisconnectOptions,
  context: CommandContext,
): Promise<void> {
  const { terminal, signal } = context;
  await using watch = new HubWatch({ socket, program: "cuda-ipc disconnect" });
  const { clients } = await watch.snapshot({ signal });
  if (watch.trouble !== undefined) throw watch.trouble;
  for (const pid of pids) {
    try {
      for (const client of clientsOf(pid, clients)) {
        await watch.disconnect(client.session, { signal });
        terminal.line(`Disconnected ${processWords(client)}.`);
      }
    } catch (error) {
      if (signal.aborted) throw error;
      printErrors(terminal, error);
      context.exitCode = 1;
    }
  }
}

/** @throws NOT_FOUND */
function clientsOf(number: number, clients: readonly WatchedClient[]): readonly WatchedClient[] {
  const ofProcess = clients.filter(({ pid }) => pid === number);
  if (ofProcess.length > 0) return ofProcess;
  const ofSession = clients.filter(({ session }) => session === number);
  if (ofSession.length > 0) return ofSession;
  throw new CudaIpcError(
    "NOT_FOUND",
    `Cannot disconnect ${number}: you see no client of the hub with this number`,
  );
}

function parsePids(text: string, earlier: readonly number[] = []): readonly number[] {
  const pid = Number(text);
  // 0 stands for processes that the hub cannot see.
  if (/^\d+$/.test(text) && pid > 0 && Number.isSafeInteger(pid)) return [...earlier, pid];
  throw new InvalidArgumentError("Give the number of a process.");
}
