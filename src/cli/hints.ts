/** What to do about an error, closer to the commands than the library's table of codes can be. */
import type { ErrorCode } from "../base/error-codes.js";
import { type CudaIpcError, SystemError } from "../base/errors.js";

interface Hint {
  readonly code: ErrorCode;
  /** Which of the errors with this code; all where it is left out. */
  readonly message?: RegExp;
  readonly hint: string;
}

const hints: readonly Hint[] = [
  { code: "FILE_EXISTS", message: /: something other than a file is there$/s, hint: "Use another path." },
  {
    code: "INVALID_FILE",
    message: /^Cannot use the configuration /,
    hint: "Correct it; its fields are in docs/reference.md, and `cuda-ipc hub check-config FILE` checks it.",
  },
  { code: "INVALID_FILE", message: /: its size cannot be known/s, hint: "Copy it to an ordinary file first." },
  {
    code: "INVALID_FILE",
    message: /: it has \d+ bytes, (no whole number of )?\w+(\[.*\] has \d+)?$/s,
    hint: "Correct --dtype or --shape.",
  },
  {
    code: "INVALID_FILE",
    message: /: the folder has /,
    hint: "Name a file, or a folder of .safetensors files with their index.",
  },
  {
    code: "WRONG_KIND",
    message: /^Cannot save .* to /s,
    hint: "Name a .safetensors file, or one of its arrays with --array.",
  },
  { code: "NOT_FOUND", message: /^Cannot take array /, hint: "See its arrays with: cuda-ipc inspect NAME --all" },
  {
    code: "PEER_GONE",
    message: /^Cannot read channel /,
    hint: "Start its sender again. With `cuda-ipc channel send --keep` receivers wait for one who sends with --resume.",
  },
  {
    code: "NAME_TAKEN",
    message: /^Cannot create /,
    hint: "Choose another name; `cuda-ipc ls` shows who has this one.",
  },
  {
    code: "IN_USE",
    message: /^Cannot open .* as its writer: /,
    hint: "A channel has one sender: wait until it has ended.",
  },
  { code: "IN_USE", message: /^Cannot go on with channel /, hint: "Leave --resume out once it has ended." },
  { code: "READERS_FULL", hint: "End another receiver, or send with a larger --readers-max." },
  { code: "CHANNEL_FULL", hint: "Send with more --slots, or another --when-full." },
  { code: "MESSAGE_TOO_LARGE", message: /^Cannot send /, hint: "Send with a larger --byte-length or --shape." },
  {
    code: "INVALID_FILE",
    message: /: its elements are in Fortran order/,
    hint: "Save it with numpy.ascontiguousarray.",
  },
  { code: "HUB_GONE", hint: "Run the command again." },
  {
    code: "HUB_UNAVAILABLE",
    message: /: (a file that is not a socket|a socket of another kind) is there$/,
    hint: "Move it away, or set CUDA_IPC_SOCKET to another path.",
  },
  {
    code: "HUB_UNAVAILABLE",
    message: /; an earlier hub kept its names there: /,
    hint: "Do what the message says about that file, then run the command again.",
  },
  {
    code: "TIMEOUT",
    message: /; the hub( \(process \d+\))? does not answer/,
    hint: "The hub does not answer; if that lasts, end its process with kill -9 (`pgrep -af cuda-ipc` finds it).",
  },
];

const hintsByErrno: Readonly<Record<string, string>> = {
  ENOENT: "Check the path.",
  ENOTDIR: "Check the path.",
  EISDIR: "Name a file, not a folder.",
  EPROTOTYPE: "A socket of another program is there: set CUDA_IPC_SOCKET to the hub's.",
  EROFS: "Choose a folder that can be written to (for the hub: CUDA_IPC_SOCKET).",
};

export function hintOf(error: CudaIpcError): string {
  const special = hints.find(({ code, message }) => code === error.code && (message?.test(error.message) ?? true));
  const byErrno = error instanceof SystemError ? hintsByErrno[error.errnoName] : undefined;
  return special?.hint ?? byErrno ?? error.remedy;
}
