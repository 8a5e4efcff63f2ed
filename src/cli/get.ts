/** `cuda-ipc get NAME FILE`: what is shared into a file, which is there whole or not at all. */
import type { FileHandle } from "node:fs/promises";
import { type Command, Option } from "commander";
import { CudaIpcError } from "../base/errors.js";
import { SharedArray } from "../client/shared-array.js";
import type { SharedBundle } from "../client/shared-bundle.js";
import { writeFileAtomically } from "../files/atomic-write.js";
import { type FileFormat, formatByName } from "../files/file-format.js";
import type { DeviceArray } from "../gpu/device-array.js";
import type { DeviceBuffer } from "../gpu/device-buffer.js";
import { writeFileFrom } from "../gpu/file-transfer.js";
import { readPieces } from "./array-pieces.js";
import type { CommandContext } from "./command-context.js";
import { refuseDash } from "./input-file.js";
import { joinHubFor } from "./join-hub.js";
import { startProgress } from "./progress.js";
import { planNpyStore, planRawStore, planSafetensorsStore, type StoreMove, type StorePlan } from "./store-plan.js";
import type { Terminal } from "./terminal.js";
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
  using shared = await hub.openAny(name, { wait: false, signal });
  const format = options.format ?? formatByName(path);
  const { plan, what } = planStore(name, path, format, shared, options.array);
  const startMs = performance.now();
  const { buffer } = shared;
  await writeFileAtomically(path, options, (file) => store({ buffer, file, path, signal }, plan, terminal));
  const words = transferWords(plan.byteLength, performance.now() - startMs);
  terminal.line(`Wrote ${path}: ${what}, ${words}.`);
}

interface Stored {
  readonly plan: StorePlan;
  /** What is written, in words. */
  readonly what: string;
}

function planStore(
  name: string,
  path: string,
  format: FileFormat,
  shared: SharedArray | SharedBundle,
  arrayName: string | undefined,
): Stored {
  if (shared instanceof SharedArray) {
    if (arrayName === undefined) return planArray(name, format, shared);
    const found = `it is an array of its own, ${arrayWords(shared)}`;
    throw new CudaIpcError("WRONG_KIND", `Cannot get array "${arrayName}" of "${name}": ${found}`);
  }
  if (arrayName !== undefined) return planArray(arrayName, format, shared.array(arrayName));
  const what = `a bundle of ${plural(shared.size, "array")}`;
  if (format === "safetensors") return { plan: planSafetensorsStore(new Map(shared), shared.metadata), what };
  throw new CudaIpcError(
    "WRONG_KIND",
    `Cannot write "${name}" to ${path}: it is ${what}; name a .safetensors file, or one of its arrays with --array`,
  );
}

function planArray(name: string, format: FileFormat, array: DeviceArray): Stored {
  const what = arrayWords(array);
  if (format === "npy") return { plan: planNpyStore(array), what };
  if (format === "raw") return { plan: planRawStore(array), what };
  return { plan: planSafetensorsStore(new Map([[name, array]]), {}), what };
}

/** From where to where. */
interface Transfer {
  readonly buffer: DeviceBuffer;
  readonly file: FileHandle;
  readonly path: string;
  readonly signal: AbortSignal;
}

async function store(transfer: Transfer, plan: StorePlan, terminal: Terminal): Promise<void> {
  const progress = startProgress(terminal, "Writing", plan.byteLength);
  try {
    await writeAll(transfer.file, plan.header, 0);
    let before = 0;
    for (const move of plan.moves) {
      before += await storeMove(transfer, move, (done) => progress.update(before + done));
    }
  } finally {
    progress.stop();
  }
}

/** @returns the bytes that were written */
async function storeMove(
  { buffer, file, path, signal }: Transfer,
  move: StoreMove,
  onProgress: (doneBytes: number) => void,
): Promise<number> {
  if (move.kind === "range") {
    const section = { file, fileName: path, byteOffset: move.fileByteOffset, byteLength: move.byteLength };
    await writeFileFrom(buffer, move.memoryByteOffset, section, { signal, onProgress });
    return move.byteLength;
  }
  let done = 0;
  for await (const piece of readPieces(move.array, { signal })) {
    await writeAll(file, piece, move.fileByteOffset + done);
    done += piece.byteLength;
    onProgress(done);
  }
  return done;
}

async function writeAll(file: FileHandle, bytes: Uint8Array, byteOffset: number): Promise<void> {
  for (let done = 0; done < bytes.byteLength; ) {
    const { bytesWritten } = await file.write(bytes, done, bytes.byteLength - done, byteOffset + done);
    done += bytesWritten;
  }
}
