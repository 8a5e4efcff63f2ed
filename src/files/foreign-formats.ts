/**
 * Recognises files whose bytes are no array: indexes, archives, pickles and GGUF models. They are
 * taken as raw bytes only if the caller says so. Pure.
 */
import { CudaIpcError } from "../base/errors.js";

/** Kinds of files, by the ends of their names. */
const names: readonly (readonly [pattern: RegExp, what: string])[] = [
  // `model.safetensors.index.json`, `x.bin.index.fp16.json`, `model_index.json`
  [/(^|[._-])index(\.[^./]+)*\.json$/i, "an index of other files"],
  [/.\.index$/i, "an index of other files"],
  [/\.(npz|zip|7z|rar|whl|mar|nemo|keras)$/i, "an archive"],
  [/\.tar(\.[^./]+)?$/i, "an archive"],
  [/\.(tgz|tbz2?|txz|tzst|gz|bz2|xz|zst|lz4)$/i, "an archive"],
  [/\.(gguf|ggml)$/i, "a GGUF model"],
  [/\.(pt|pt2|pth|ptl|pkl|pickle|ckpt|joblib|dill)$/i, "a pickle"],
  // The Hugging Face libraries and accelerate name pickles so. Other `.bin` files may be frames.
  [/(^|_)(pytorch_model|adapter_model|training_args|optimizer|scheduler)\b.*\.bin$/i, "a pickle"],
];

/** Kinds of files, by their first bytes. */
const starts: readonly (readonly [bytes: readonly number[], what: string])[] = [
  [[0x50, 0x4b, 0x03, 0x04], "an archive (of torch or NumPy, or another ZIP file)"],
  [[0x47, 0x47, 0x55, 0x46], "a GGUF model"],
  // The magic number that torch before 1.6 pickled first.
  [[0x80, 0x02, 0x8a, 0x0a, 0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20], "a pickle of torch"],
];

/** The number of bytes that `refuseForeignFormat` looks at. */
export const foreignStartBytes = 16;

/**
 * @param start the first `foreignStartBytes` bytes
 * @param rawBy how the caller asks for raw bytes, for the error
 * @throws INVALID_FILE if the name or the content says that the bytes are no array
 */
export function refuseForeignFormat(path: string, start: Uint8Array, rawBy: string): void {
  const what = whatNameSays(path) ?? whatContentSays(start);
  if (what === undefined) return;
  throw new CudaIpcError(
    "INVALID_FILE",
    `Cannot read ${JSON.stringify(path)} as an array: it is ${what}`,
    { remedy: `Pass an .npy or .safetensors file. To share the bytes as they are, use ${rawBy}.` },
  );
}

/** The kind of a file whose name says that it is no array: `an archive`. */
export function whatNameSays(path: string): string | undefined {
  const name = path.slice(path.lastIndexOf("/") + 1);
  return names.find(([pattern]) => pattern.test(name))?.[1];
}

function whatContentSays(start: Uint8Array): string | undefined {
  if (isFramedPickle(start)) return "a pickle";
  return starts.find(([bytes]) => bytes.every((byte, i) => start[i] === byte))?.[1];
}

/** Python's default since 3.8: PROTO 4 or 5, FRAME, and the 8 bytes of the frame's length. */
function isFramedPickle(start: Uint8Array): boolean {
  const [proto, version, frame] = start;
  if (proto !== 0x80 || (version !== 4 && version !== 5) || frame !== 0x95) return false;
  return start.length >= 11 && start.subarray(7, 11).every((byte) => byte === 0);
}
