/** `cuda-ipc pull NAME`: copies an array or bundle of another machine, or carries its channel. */
import type { Command } from "commander";
import { Deadline } from "../../base/deadline.js";
import { defaults } from "../../base/limits.js";
import { hubSocketPath } from "../../client/connect.js";
import { pullName } from "../../client/connection/bridge-call.js";
import { checkName } from "../../wire/names.js";
import { parseTime, socketOption } from "../arguments.js";
import type { CommandContext } from "../command-context.js";
import { fileProgress } from "../terminal/progress.js";
import { sizeWords, transferWords } from "../terminal/words.js";

interface PullOptions {
  readonly socket?: string;
  readonly wait?: number;
}

export function addPull(program: Command, context: CommandContext): void {
  program
    .command("pull")
    .description(
      "copy an array or bundle of another machine to this one, or carry its channel, through the " +
        "bridge",
    )
    .argument("<name>", "the name that another machine announces")
    .option("--wait <time>", "wait until a machine announces it, such as 30s or 5min", parseTime)
    .addOption(socketOption())
    .addHelpText("after", "\nExample:\n  $ cuda-ipc pull weights")
    .action((name: string, options: PullOptions) => pull(name, options, context));
}

async function pull(
  name: string,
  { socket, wait }: PullOptions,
  { terminal, signal }: CommandContext,
): Promise<void> {
  checkName(name);
  const { onProgress, stop } = fileProgress(terminal, "Copying");
  const startMs = performance.now();
  let isFetched = false;
  try {
    const deadline = new Deadline(
      `pull "${name}"`,
      { signal, timeoutMs: wait },
      defaults.requestTimeoutMs,
    );
    const done = await pullName(hubSocketPath(socket), name, {
      deadline,
      isLimited: false,
      wait: wait !== undefined,
      onProgress: (progress) => {
        isFetched = true;
        onProgress(progress);
      },
    });
    stop();
    const { machine, byteLength } = done;
    const from = machine === null ? "it is this machine's own" : `a copy from "${machine}"`;
    const words = isFetched
      ? transferWords(byteLength, performance.now() - startMs)
      : `${sizeWords(byteLength)}, there already`;
    terminal.line(`"${name}" is here: ${from}, ${words}.`);
  } finally {
    stop();
  }
}
