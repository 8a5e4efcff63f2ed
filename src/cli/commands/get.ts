/** `cuda-ipc get NAME FILE`: saves what is shared to a file. A failed save leaves no file. */
import { type Command, InvalidArgumentError } from "commander";
import { parseBytes } from "../../base/bytes.js";
import type { Hub } from "../../client/hub.js";
import type { Saved } from "../../client/hub-options.js";
import type { SharedArray } from "../../client/objects/shared-array.js";
import type { SharedBundle } from "../../client/objects/shared-bundle.js";
import type { FileFormat } from "../../files/file-format.js";
import { spareHoles } from "../../gpu/transfer/lane.js";
import { formatOption, parseTime, refuseDash } from "../arguments.js";
import type { CommandContext } from "../command-context.js";
import { joinHubFor, joinOrStartHub } from "../join-hub.js";
import { UsageError } from "../terminal/error-report.js";
import { fileProgress } from "../terminal/progress.js";
import { arrayWords, plural, transferWords } from "../terminal/words.js";

interface GetOptions {
  readonly array?: string;
  readonly force?: boolean;
  readonly format?: FileFormat;
  readonly shardSize?: number;
  readonly wait?: number;
}

export function addGet(program: Command, context: CommandContext): void {
  program
    .command("get")
    .description("save a shared array or bundle to a file")
    .argument("<name>", "the name to save")
    .argument("<file>", ".npy or raw bytes for an array, .safetensors or a folder for a bundle")
    .option("-a, --array <array>", "save only this array of a bundle")
    .option("-f, --force", "replace the file if it exists")
    .addOption(formatOption("the file's format (default: by its name)"))
    .option(
      "--shard-size <size>",
      "write a bundle to a new folder, as .safetensors files of at most this size, such as 4GiB",
      parseShardSize,
    )
    .option(
      "-w, --wait <time>",
      "wait at most this long until it is published, such as 10s",
      parseTime,
    )
    .addHelpText(
      "after",
      "\nExamples:\n  $ cuda-ipc get weights copy.safetensors\n" +
        "  $ cuda-ipc get weights embedding.npy --array model.embedding\n" +
        "  $ cuda-ipc get llama ./llama-copy --shard-size 4GiB\n" +
        "  $ cuda-ipc get result result.npy --wait 10s",
    )
    .action((name: string, file: string, options: GetOptions) => get(name, file, options, context));
}

async function get(
  name: string,
  path: string,
  options: GetOptions,
  context: CommandContext,
): Promise<void> {
  refuseDash(path);
  spareHoles();
  const { array, format, force, shardSize } = options;
  const shardBytesMax = shardSize;
  if (shardSize !== undefined && array !== undefined)
    throw new UsageError("--shard-size is for whole bundles: leave out --array");
  if (shardSize !== undefined && format !== undefined && format !== "safetensors")
    throw new UsageError(`--shard-size writes safetensors files: leave out --format ${format}`);
  const { signal, terminal } = context;
  // The process that publishes it may start later, and a hub with it.
  await using hub = await (options.wait === undefined
    ? joinHubFor(context, "get", name)
    : joinOrStartHub(context, "get"));
  using _held = await published(hub, name, options.wait, signal);
  const { onProgress, stop } = fileProgress(terminal, "Writing");
  const startMs = performance.now();
  let saved: Saved;
  try {
    const chosen = { array, format, force, shardBytesMax };
    saved = await hub.save(name, path, { ...chosen, wait: false, signal, onProgress });
  } finally {
    stop();
  }
  const words = transferWords(saved.byteLength, performance.now() - startMs);
  terminal.line(`Wrote ${path}: ${contentWords(saved)}, ${words}.`);
}

/** Waits for the name, and holds what it names. Writing it may take longer. */
async function published(
  hub: Hub,
  name: string,
  timeoutMs: number | undefined,
  signal: AbortSignal,
): Promise<SharedArray | SharedBundle | undefined> {
  return timeoutMs === undefined ? undefined : hub.openAny(name, { timeoutMs, signal });
}

function parseShardSize(text: string): number {
  const byteLength = parseBytes(text);
  if (byteLength !== undefined && byteLength > 0) return byteLength;
  throw new InvalidArgumentError("Give a number of bytes, such as 4096 or 4GiB.");
}

function contentWords({ content }: Saved): string {
  return content.kind === "array"
    ? arrayWords(content)
    : `a bundle of ${plural(content.arrayCount, "array")}`;
}
