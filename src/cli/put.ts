/** `cuda-ipc put NAME FILE`: a file or folder into shared memory, where it stays until `rm`. */
import { type Command, Option } from "commander";
import type { DType } from "../array/dtype.js";
import { CudaIpcError, hasCode } from "../base/errors.js";
import type { Hub } from "../client/hub.js";
import type { CreateOptions, Loaded } from "../client/hub-options.js";
import type { FileFormat } from "../files/file-format.js";
import { detectSourceFormat } from "../files/load-source.js";
import { parseDTypeName, parseShape } from "./arguments.js";
import type { CommandContext } from "./command-context.js";
import { UsageError } from "./error-report.js";
import { checkInputPath } from "./input-file.js";
import { joinOrStartHub } from "./join-hub.js";
import { fileProgress } from "./progress.js";
import { arrayWords, chosenDeviceWords, plural, transferWords } from "./words.js";

interface PutOptions {
  readonly device?: string;
  readonly format?: FileFormat;
  readonly dtype?: DType;
  readonly shape?: number[];
  readonly replace?: boolean;
  readonly share?: "group" | "all";
  readonly shareAccess?: "read" | "read-write";
}

export function addPut(program: Command, context: CommandContext): void {
  program
    .command("put")
    .description("put a file into shared memory, where it stays until `cuda-ipc rm`")
    .argument("<name>", "the name under which others open it")
    .argument("<file>", ".npy (an array), .safetensors or a folder of them (a bundle of arrays), or any bytes")
    .option("-d, --device <device>", "auto, host or cuda:N (default: CUDA_IPC_DEVICE, else auto)")
    .option("-r, --replace", "take the place of what has this name, once the file was read")
    .addOption(
      new Option(
        "--share <whom>",
        "let other users open it: members of your group, or all whom the hub serves",
      ).choices(["group", "all"]),
    )
    .addOption(new Option("--share-access <access>", "for what (default: read)").choices(["read", "read-write"]))
    .addOption(
      new Option("--format <format>", "what the file is, if not what it looks like").choices([
        "npy",
        "safetensors",
        "raw",
      ]),
    )
    .option("--dtype <dtype>", "element type of raw bytes (default: uint8)", parseDTypeName)
    .option("--shape <shape>", "shape of raw bytes, as 1080,1920,3 (default: one axis)", parseShape)
    .addHelpText(
      "after",
      "\nExamples:\n  $ cuda-ipc put weights model.safetensors\n  $ cuda-ipc put llama ./llama-3-8b --device cuda:0\n  $ cuda-ipc put frame frame.bin --dtype uint8 --shape 1080,1920,3",
    )
    .action((name: string, file: string, options: PutOptions) => put(name, file, options, context));
}

async function put(name: string, path: string, options: PutOptions, context: CommandContext): Promise<void> {
  await checkInputPath(path);
  const { dtype, shape, replace } = options;
  const format = options.format ?? (await detectSourceFormat(path));
  if (format !== "raw" && (dtype !== undefined || shape !== undefined)) {
    const found = `${path} says itself what it is (${format})`;
    throw new UsageError(`--dtype and --shape are for raw bytes, and ${found}; see --format`);
  }
  const given = createOptions(options);
  await using hub = await joinOrStartHub(context, "put", options);
  // WHY opened first: a device that is not there is refused, whatever the name.
  hub.device();
  const replaced = await nameIsTaken(hub, name, replace ?? false);
  const { signal, terminal } = context;
  const { onProgress, stop } = fileProgress(terminal, "Reading");
  const startMs = performance.now();
  try {
    using shared = await hub.load(name, path, { ...given, format, dtype, shape, replace, signal, onProgress });
    stop();
    const words = transferWords(shared.buffer.byteLength, performance.now() - startMs);
    const where = chosenDeviceWords(shared.buffer.device);
    terminal.line(`${replaced ? "Replaced" : "Shared"} "${name}": ${contentWords(shared)}, ${words}, on ${where}.`);
  } finally {
    stop();
  }
}

/** WHY asked before anything is read: to fail at once. It is the hub that decides, when the name is created. */
async function nameIsTaken(hub: Hub, name: string, replace: boolean): Promise<boolean> {
  try {
    await hub.inspect(name);
  } catch (error) {
    if (hasCode(error, "NOT_FOUND")) return false;
    throw error;
  }
  if (replace) return true;
  throw new CudaIpcError(
    "NAME_TAKEN",
    `Cannot put "${name}": something of this name is shared; pass --replace to replace it`,
  );
}

function createOptions({ share, shareAccess }: PutOptions): CreateOptions {
  if (share !== undefined) return { lifetime: "pinned", sharing: { with: share, access: shareAccess } };
  if (shareAccess !== undefined)
    throw new UsageError("--share-access says for what others may open it; say whom with --share");
  return { lifetime: "pinned" };
}

function contentWords(shared: Loaded): string {
  return shared.kind === "array" ? arrayWords(shared) : `a bundle of ${plural(shared.size, "array")}`;
}
