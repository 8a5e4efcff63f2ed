/** `cuda-ipc get NAME FILE`: what is shared into a file, which is there whole or not at all. */
import { type Command, Option } from "commander";
import type { Saved } from "../client/hub-options.js";
import type { FileFormat } from "../files/file-format.js";
import type { CommandContext } from "./command-context.js";
import { refuseDash } from "./input-file.js";
import { joinHubFor } from "./join-hub.js";
import { fileProgress } from "./progress.js";
import { arrayWords, plural, transferWords } from "./words.js";

interface GetOptions {
  readonly array?: string;
  readonly force?: boolean;
  readonly format?: FileFormat;
}

export function addGet(program: Command, context: CommandContext): void {
  program
    .command("get")
    .description("write what is shared under a name to a file")
    .argument("<name>", "what to write")
    .argument("<file>", "where to: .npy or raw bytes for an array, .safetensors for a bundle")
    .option("-a, --array <array>", "only this array of a bundle")
    .option("-f, --force", "replace a file that is there already")
    .addOption(
      new Option("--format <format>", "the file's format, if not by its name").choices(["npy", "safetensors", "raw"]),
    )
    .addHelpText(
      "after",
      "\nExamples:\n  $ cuda-ipc get weights copy.safetensors\n  $ cuda-ipc get weights embedding.npy --array model.embedding",
    )
    .action((name: string, file: string, options: GetOptions) => get(name, file, options, context));
}

async function get(name: string, path: string, options: GetOptions, context: CommandContext): Promise<void> {
  refuseDash(path);
  const { signal, terminal } = context;
  await using hub = await joinHubFor(context, "get", name);
  const { onProgress, stop } = fileProgress(terminal, "Writing");
  const startMs = performance.now();
  let saved: Saved;
  try {
    saved = await hub.save(name, path, { ...options, wait: false, signal, onProgress });
  } finally {
    stop();
  }
  const words = transferWords(saved.byteLength, performance.now() - startMs);
  terminal.line(`Wrote ${path}: ${contentWords(saved)}, ${words}.`);
}

function contentWords({ content }: Saved): string {
  return content.kind === "array" ? arrayWords(content) : `a bundle of ${plural(content.arrayCount, "array")}`;
}
