/** `cuda-ipc channel`: messages to many readers, from files and pipes and into them. */
import type { Command } from "commander";
import { addReceive } from "./channel/receive.js";
import { addSend } from "./channel/send.js";
import { addStat } from "./channel/stat.js";
import type { CommandContext } from "./command-context.js";

export function addChannel(program: Command, context: CommandContext): void {
  const channel = program
    .command("channel")
    .helpCommand(false)
    .description("send and receive messages in shared memory, from one writer to many readers")
    .addHelpText(
      "after",
      "\nExample, in two terminals:\n  $ cuda-ipc channel receive numbers --lines\n  $ seq 1000 | cuda-ipc channel send numbers --lines",
    );
  addSend(channel, context);
  addReceive(channel, context);
  addStat(channel, context);
}
