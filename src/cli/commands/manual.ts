/** The hidden `cuda-ipc manual`: prints the source of the manual page, for the build. */
import type { Command } from "commander";
import type { CommandContext } from "../command-context.js";
import { manualPage } from "../manual/manual-page.js";

export function addManual(program: Command, { terminal }: CommandContext): void {
  program
    .command("manual", { hidden: true })
    .description("print the source of the manual page")
    .action(() => {
      for (const line of manualPage(program).trimEnd().split("\n")) terminal.line(line);
    });
}
