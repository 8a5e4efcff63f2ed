/** `cuda-ipc hub`: the commands about the hub itself. */
import type { Command } from "commander";
import type { CommandContext } from "./command-context.js";
import { addHubCheckConfig } from "./hub-check-config.js";
import { addHubRestart } from "./hub-restart.js";
import { addHubServe } from "./hub-serve.js";
import { addHubStatus } from "./hub-status.js";
import { addHubStop } from "./hub-stop.js";

export function addHub(program: Command, context: CommandContext): void {
  const hub = program
    .command("hub")
    .helpCommand(false)
    .description("run, look at or end the hub, the process that keeps names and memory")
    .addHelpText(
      "after",
      "\nThe hub is started by itself when it is needed; these commands are for more control.\n\nExample:\n  $ cuda-ipc hub status",
    );
  addHubServe(hub, context);
  addHubStatus(hub, context);
  addHubRestart(hub, context);
  addHubStop(hub, context);
  addHubCheckConfig(hub, context);
}
