/**
 * `cuda-ipc put NAME FILE`: loads a file or folder into shared memory, where it stays until `rm`.
 */
import { type Command, Option } from "commander";
import type { DType } from "../../array/dtype.js";
import { CudaIpcError, hasCode } from "../../base/errors.js";
import type { Hub } from "../../client/hub.js";
import type { CreateOptions, Inspection, Loaded } from "../../client/hub-options.js";
import type { FileFormat } from "../../files/file-format.js";
import { detectSourceFormat } from "../../files/load-source.js";
import {
  checkInputPath,
  deviceOption,
  formatOption,
  parseDTypeName,
  parseShape,
  shareOption,
} from "../arguments.js";
import type { CommandContext } from "../command-context.js";
import { joinOrStartHub } from "../join-hub.js";
import { UsageError } from "../terminal/error-report.js";
import { fileProgress } from "../terminal/progress.js";
import { arrayWords, chosenDeviceWords, plural, transferWords } from "../terminal/words.js";

interface PutOptions {
  readonly device?: string;
  readonly format?: FileFormat;
  readonly dtype?: DType;
  readonly shape?: number[];
  readonly replace?: boolean;
  readonly share?: "group" | "all";
  readonly shareAccess?: "read" | "read-write";
  readonly machines?: boolean;
  readonly allowLinks?: boolean;
  readonly preallocate?: boolean;
}

export function addPut(program: Command, context: CommandContext): void {
  program
    .command("put")
    .description("load a file into shared memory, where it stays until `cuda-ipc rm`")
    .argument("<name>", "the name that other processes open")
    .argument(
      "<file>",
      ".npy (an array), .safetensors or a folder of them (a bundle of arrays), or raw bytes",
    )
    .addOption(deviceOption())
    .option("-r, --replace", "replace an object of this name and kind once the file is read")
    .addOption(shareOption("open"))
    .addOption(
      new Option(
        "--share-access <access>",
        "what other users may do with it (default: read)",
      ).choices(["read", "read-write"]),
    )
    .option("--machines", "let other machines copy it, if this machine has a bridge")
    .addOption(formatOption("the file's format (default: by its name and content)"))
    .option("--dtype <dtype>", "element type of raw bytes (default: uint8)", parseDTypeName)
    .option(
      "--shape <shape>",
      "shape of raw bytes, such as 1080,1920,3 (default: one axis)",
      parseShape,
    )
    .option("--allow-links", "follow links out of a folder, for stores that are made of links")
    .option("--preallocate", "take all host memory before the file is read, or fail")
    .addHelpText(
      "after",
      "\nExamples:\n  $ cuda-ipc put weights model.safetensors\n" +
        "  $ cuda-ipc put llama ./llama-3-8b --device cuda:0\n" +
        "  $ cuda-ipc put frame frame.bin --dtype uint8 --shape 1080,1920,3",
    )
    .action((name: string, file: string, options: PutOptions) => put(name, file, options, context));
}

async function put(
  name: string,
  path: string,
  options: PutOptions,
  context: CommandContext,
): Promise<void> {
  await checkInputPath(path);
  const { dtype, shape, replace, allowLinks, preallocate } = options;
  const format = options.format ?? (await detectSourceFormat(path));
  if (format !== "raw" && (dtype !== undefined || shape !== undefined)) {
    throw new UsageError(
      `--dtype and --shape are for raw bytes, but ${path} is a ${format} file; see --format`,
    );
  }
  const given = createOptions(options);
  await using hub = await joinOrStartHub(context, "put", options);
  // Opened first, so that an unknown device is refused whatever the name is.
  hub.device();
  const replaced = await nameIsTaken(hub, name, replace ?? false);
  const { signal, terminal } = context;
  const { onProgress, stop } = fileProgress(terminal, "Reading");
  const startMs = performance.now();
  try {
    using shared = await hub.load(name, path, {
      ...given,
      format,
      dtype,
      shape,
      replace,
      allowLinks,
      preallocate,
      signal,
      onProgress,
    });
    stop();
    const words = transferWords(shared.buffer.byteLength, performance.now() - startMs);
    const where = chosenDeviceWords(shared.buffer.device);
    terminal.line(
      `${replaced ? "Replaced" : "Shared"} "${name}": ${contentWords(shared)}, ${words}, ` +
        `on ${where}.`,
    );
  } finally {
    stop();
  }
}

const contentNoun = {
  array: "an array",
  bundle: "a bundle",
  channel: "a channel",
  timeline: "a timeline",
} as const;

/** Asked before the file is read, to fail early. The hub decides when the name is created. */
async function nameIsTaken(hub: Hub, name: string, replace: boolean): Promise<boolean> {
  let found: Inspection;
  try {
    found = await hub.inspect(name);
  } catch (error) {
    if (hasCode(error, "NOT_FOUND")) return false;
    throw error;
  }
  if (replace) return true;
  const { object, holders } = found;
  const what = contentNoun[object.descriptor.content.kind];
  const owner = holders.find(({ access }) => access === "owner");
  const by = owner === undefined ? "" : `, created by process ${owner.pid} (${owner.program})`;
  throw new CudaIpcError(
    "NAME_TAKEN",
    `Cannot put "${name}": ${what}, number ${object.object}, has this name${by}`,
  );
}

function createOptions({ share, shareAccess, machines }: PutOptions): CreateOptions {
  if (share !== undefined)
    return { lifetime: "pinned", sharing: { with: share, access: shareAccess, machines } };
  if (shareAccess !== undefined)
    throw new UsageError("--share-access needs --share, which says who else may open it");
  return machines === true ? { lifetime: "pinned", sharing: { machines } } : { lifetime: "pinned" };
}

function contentWords(shared: Loaded): string {
  return shared.kind === "array"
    ? arrayWords(shared)
    : `a bundle of ${plural(shared.size, "array")}`;
}
