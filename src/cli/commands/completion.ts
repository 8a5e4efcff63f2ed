/**
 * `cuda-ipc completion SHELL`: prints a script for the shell. The hidden `cuda-ipc complete SHELL`
 * answers such a script, each time a user presses Tab.
 */
import { Argument, type Command } from "commander";
import { parsePositive } from "../arguments.js";
import type { CommandContext } from "../command-context.js";
import { answerForBash, answerForFish, answerForZsh } from "../completion/answers.js";
import { parseBashLine } from "../completion/bash-line.js";
import { HubNames } from "../completion/hub-names.js";
import { offersFor } from "../completion/offers-for.js";
import { type Shell, scripts, shells } from "../completion/scripts.js";
import { UsageError } from "../terminal/error-report.js";
import { StandardOutput } from "../terminal/standard-output.js";

/** How long completion waits for a silent hub. A hub usually answers within a few milliseconds. */
const LIMIT_MS = 300;

const MORE = `
Load it where the shell starts:
  bash  add to ~/.bashrc:                  source <(cuda-ipc completion bash)
  zsh   add to ~/.zshrc, after compinit:   source <(cuda-ipc completion zsh)
  fish  add to ~/.config/fish/config.fish: cuda-ipc completion fish | source

Example:
  $ cuda-ipc completion bash`;

export function addCompletion(program: Command, context: CommandContext): void {
  program
    .command("completion")
    .description("print a script that completes commands, options and names in your shell")
    .addArgument(new Argument("<shell>", "your shell").choices(shells))
    .addHelpText("after", MORE)
    .action((shell: Shell) => print(scripts[shell], context));
  program
    .command("complete", { hidden: true })
    .description("answer the script of a shell")
    .addArgument(new Argument("<shell>").choices(shells))
    .argument("[words...]", "for bash the line and the part to replace, else words of the line")
    .option("--limit-ms <ms>", "how long to wait for the hub", (ms) => parsePositive(ms), LIMIT_MS)
    .action((shell: Shell, words: readonly string[], options: { readonly limitMs: number }) =>
      complete(program, shell, words, options.limitMs, context),
    );
}

async function complete(
  program: Command,
  shell: Shell,
  words: readonly string[],
  limitMs: number,
  context: CommandContext,
): Promise<void> {
  // Names of arrays go out as they are, and could control a terminal.
  if (context.terminal.isRead) throw new UsageError("only completion scripts can read the answer");
  const names = new HubNames(context, limitMs);
  if (shell === "bash") {
    const [text = "", part = ""] = words;
    const line = parseBashLine(text);
    const offers = line.isRedirection
      ? "files"
      : await offersFor(program, line.words.slice(1), names);
    return print(answerForBash(offers, line, part), context);
  }
  const offers = await offersFor(program, shell === "fish" ? words.slice(1) : words, names);
  return print(shell === "zsh" ? answerForZsh(offers) : answerForFish(offers), context);
}

async function print(text: string, context: CommandContext): Promise<void> {
  await new StandardOutput(context).write(Buffer.from(text));
}
