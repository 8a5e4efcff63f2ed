import type { Command } from "commander";
import type { CommandContext } from "./command-context.js";
export function addDemo(_program: Command, _context: CommandContext): void {}
