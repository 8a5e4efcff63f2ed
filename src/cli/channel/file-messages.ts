/** Makes a message of each file: the array of an .npy file, or the bytes of another file. */
import { CudaIpcError } from "../../base/errors.js";
import { detectFileFormat } from "../../files/file-format.js";
import { type NpyHeader, readNpyHeader } from "../../files/npy-header.js";
import { fileByteLength, openSourceFile } from "../../files/source-file.js";
import { checkInputPath } from "../arguments.js";
import { UsageError } from "../terminal/error-report.js";
import {
  type AskedSlot,
  bytesAs,
  chosenSlot,
  type MessageSource,
  type OutgoingMessage,
  type SlotFacts,
} from "./message-source.js";

interface PlannedFile {
  readonly path: string;
  readonly byteOffset: number;
  readonly byteLength: number;
  readonly array: SlotFacts | undefined;
}

/**
 * Makes a message of each file.
 * @param repeat how many times all files are sent, may be Infinity
 * @throws INVALID_FILE, UNSUPPORTED_DTYPE, PERMISSION_DENIED
 */
export async function fileMessages(
  paths: readonly string[],
  asked: AskedSlot,
  repeat: number,
): Promise<MessageSource> {
  const files: PlannedFile[] = [];
  for (const path of paths) files.push(await plan(path));
  const total = files.length * repeat;
  return {
    slot: chosenSlot(asked, slotOf(files, asked)),
    total: Number.isFinite(total) ? total : undefined,
    messages: () => all(files, repeat),
    close: async () => {},
  };
}

async function* all(
  files: readonly PlannedFile[],
  repeat: number,
): AsyncGenerator<OutgoingMessage, void, undefined> {
  for (let round = 0; round < repeat; round += 1) {
    for (const planned of files) {
      const { path, byteOffset, byteLength, array } = planned;
      const file = await openSourceFile(path);
      try {
        const data = { file, fileName: JSON.stringify(path), byteOffset, byteLength };
        yield { origin: JSON.stringify(path), byteLength, array, data };
      } finally {
        await file.close();
      }
    }
  }
}

async function plan(path: string): Promise<PlannedFile> {
  await checkInputPath(path);
  const file = await openSourceFile(path);
  try {
    const format = await detectFileFormat(path, "--frames SIZE with standard input");
    if (format === "safetensors") {
      throw new UsageError(
        `${path} holds several arrays, but a message is one array; --frames SIZE sends its bytes`,
      );
    }
    if (format === "raw") {
      return {
        path,
        byteOffset: 0,
        byteLength: await fileByteLength(file, path),
        array: undefined,
      };
    }
    const header = await readNpyHeader(file, path);
    checkOrder(header, path);
    const { dtype, shape, dataByteOffset, dataByteLength } = header;
    return {
      path,
      byteOffset: dataByteOffset,
      byteLength: dataByteLength,
      array: { dtype, shape },
    };
  } finally {
    await file.close();
  }
}

/** @throws INVALID_FILE if the elements are in Fortran order */
export function checkOrder({ fortranOrder, shape }: NpyHeader, fileName: string): void {
  // With at most one axis, both orders are the same.
  if (!fortranOrder || shape.filter((size) => size !== 1).length <= 1) return;
  const found = "its elements are in Fortran order, but a message needs C order";
  throw new CudaIpcError("INVALID_FILE", `Cannot send ${JSON.stringify(fileName)}: ${found}`);
}

/** The slot for all files: the first array's dtype and shape, or the size of the largest file. */
function slotOf(files: readonly PlannedFile[], { dtype = "uint8" }: AskedSlot): SlotFacts {
  const [first] = files;
  if (first?.array !== undefined) return first.array;
  return bytesAs(dtype, Math.max(1, ...files.map((file) => file.byteLength)));
}
