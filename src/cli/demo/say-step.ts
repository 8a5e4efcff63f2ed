/** Prints one step of a demo: who did it, in which process, and what. */
import type { Terminal } from "../terminal/terminal.js";

export function sayStep(terminal: Terminal, who: string, pid: number, text: string): void {
  terminal.line(`  ${who.padEnd(10)}${String(pid).padStart(7)}  ${text}`);
}
