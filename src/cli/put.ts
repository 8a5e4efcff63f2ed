/** `cuda-ipc put NAME FILE`: a file into shared memory, where it stays until it is removed. */
import type { FileHandle } from "node:fs/promises";
import { type Command, Option } from "commander";
import type { DType } from "../array/dtype.js";
import { CudaIpcError, hasCode } from "../base/errors.js";
import type { CreateOptions, Hub } from "../client/hub.js";
import type { SharedArray } from "../client/shared-array.js";
import type { SharedBundle } from "../client/shared-bundle.js";
import { detectFileFormat, type FileFormat } from "../files/file-format.js";
import { DeviceBuffer } from "../gpu/device-buffer.js";
import { readFileInto } from "../gpu/file-transfer.js";
import { parseDTypeName, parseShape } from "./arguments.js";
import type { CommandContext } from "./command-context.js";
import { UsageError } from "./error-report.js";
import { openInputFile } from "./input-file.js";
import { joinOrStartHub } from "./join-hub.js";
import { type LoadPlan, planLoad } from "./load-plan.js";
import { startProgress } from "./progress.js";
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
    .argument("<file>", ".npy (an array), .safetensors (a bundle of arrays), or any bytes")
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
      "\nExamples:\n  $ cuda-ipc put weights model.safetensors\n  $ cuda-ipc put frame frame.bin --dtype uint8 --shape 1080,1920,3",
    )
    .action((name: string, file: string, options: PutOptions) => put(name, file, options, context));
}

async function put(name: string, path: string, options: PutOptions, context: CommandContext): Promise<void> {
  const file = await openInputFile(path);
  try {
    const format = options.format ?? (await detectFileFormat(path));
    if (format !== "raw" && (options.dtype !== undefined || options.shape !== undefined)) {
      throw new UsageError(
        `--dtype and --shape are for raw bytes, and ${path} says itself what it is (${format}); see --format`,
      );
    }
    const plan = await planLoad(file, path, format, options);
    const given = createOptions(options);
    await using hub = await joinOrStartHub(context, "put", options);
    // WHY opened before the name is looked at: a device that is not there is refused whatever the name.
    hub.device();
    const replaced = await nameIsTaken(hub, name, options.replace ?? false);
    const startMs = performance.now();
    const load = (buffer: DeviceBuffer) => fill(buffer, file, path, plan, context);
    using shared = await (options.replace
      ? createFilled(hub, name, plan, load, replaced, given)
      : createAndFill(hub, name, plan, load, given));
    context.signal.throwIfAborted();
    // WHY without the signal: once this was sent it counts, and the command must not claim otherwise.
    await shared.publish();
    report(name, plan, shared, performance.now() - startMs, replaced, context);
  } finally {
    await file.close();
  }
}

type Load = (buffer: DeviceBuffer) => Promise<void>;

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

/** The name is ours from the start, visible to others only when it is published. */
async function createAndFill(
  hub: Hub,
  name: string,
  plan: LoadPlan,
  load: Load,
  given: CreateOptions,
): Promise<SharedArray | SharedBundle> {
  const shared = await create(hub, name, plan, plan.byteLength, given);
  await load(shared.buffer);
  return shared;
}

/** The old object keeps the name until the new one is complete. */
async function createFilled(
  hub: Hub,
  name: string,
  plan: LoadPlan,
  load: Load,
  replaced: boolean,
  given: CreateOptions,
): Promise<SharedArray | SharedBundle> {
  const buffer = DeviceBuffer.allocate(hub.device(), plan.byteLength, { label: name });
  try {
    await load(buffer);
    if (replaced) await removeIfThere(hub, name);
    return await create(hub, name, plan, buffer, given);
  } catch (error) {
    buffer.close();
    throw error;
  }
}

function create(
  hub: Hub,
  name: string,
  { content }: LoadPlan,
  memory: number | DeviceBuffer,
  given: CreateOptions,
): Promise<SharedArray | SharedBundle> {
  if (content.kind === "array") return hub.createOf(name, content.layout, memory, given);
  return hub.createBundleOf(name, content.layouts, memory, { ...given, metadata: content.metadata });
}

function createOptions({ share, shareAccess }: PutOptions): CreateOptions {
  if (share !== undefined) return { lifetime: "pinned", sharing: { with: share, access: shareAccess } };
  if (shareAccess !== undefined)
    throw new UsageError("--share-access says for what others may open it; say whom with --share");
  return { lifetime: "pinned" };
}

async function removeIfThere(hub: Hub, name: string): Promise<void> {
  try {
    await hub.remove(name);
  } catch (error) {
    if (!hasCode(error, "NOT_FOUND")) throw error;
  }
}

async function fill(
  buffer: DeviceBuffer,
  file: FileHandle,
  path: string,
  { moves }: LoadPlan,
  { terminal, signal }: CommandContext,
): Promise<void> {
  const progress = startProgress(
    terminal,
    "Reading",
    moves.reduce((sum, move) => sum + move.byteLength, 0),
  );
  try {
    let before = 0;
    for (const { fileByteOffset, memoryByteOffset, byteLength } of moves) {
      const section = { file, fileName: path, byteOffset: fileByteOffset, byteLength };
      const onProgress = (done: number) => progress.update(before + done);
      await readFileInto(buffer, memoryByteOffset, section, { signal, onProgress });
      before += byteLength;
    }
  } finally {
    progress.stop();
  }
}

function report(
  name: string,
  { content, byteLength }: LoadPlan,
  shared: SharedArray | SharedBundle,
  ms: number,
  replaced: boolean,
  { terminal }: CommandContext,
): void {
  const what =
    content.kind === "array" ? arrayWords(content.layout) : `a bundle of ${plural(content.layouts.size, "array")}`;
  const where = chosenDeviceWords(shared.buffer.device);
  const verb = replaced ? "Replaced" : "Shared";
  terminal.line(`${verb} "${name}": ${what}, ${transferWords(byteLength, ms)}, on ${where}.`);
}
