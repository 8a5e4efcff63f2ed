/** Prints errors for people: a line with the code, and a line that says what to do. */
import type { ErrorCode } from "../../base/error-codes.js";
import { CudaIpcError, SystemError } from "../../base/errors.js";
import { printable } from "./printable.js";
import type { Terminal } from "./terminal.js";
import { withoutLoaderWords } from "./words.js";

/** Wrong usage of a command, which ends it with exit code 2. */
export class UsageError extends Error {
  constructor(message: string) {
    super(message);
    this.name = "UsageError";
  }
}

interface ErrorReport {
  readonly code: string;
  readonly message: string;
  readonly hint: string | undefined;
}

/** The error, or each error of an AggregateError in its order. */
export function describeErrors(error: unknown): ErrorReport[] {
  if (error instanceof AggregateError) return error.errors.flatMap(describeErrors);
  return [describeError(error)];
}

export function printErrors(terminal: Terminal, error: unknown): void {
  for (const { code, message, hint } of describeErrors(error)) {
    const [first = "", ...others] = message.split("\n").map(printable);
    terminal.note(`${terminal.noteStyle(["red", "bold"], `error[${code}]`)}: ${first}`);
    for (const line of others) terminal.note(line);
    if (hint !== undefined) terminal.note(`  ${terminal.noteStyle("dim", "hint:")} ${hint}`);
  }
}

function describeError(error: unknown): ErrorReport {
  if (error instanceof CudaIpcError) {
    return {
      code: error.code,
      message: sentence(withoutLoaderWords(error.message)),
      hint: hintOf(error),
    };
  }
  if (error instanceof UsageError)
    return { code: "USAGE", message: sentence(error.message), hint: undefined };
  const words = error instanceof Error ? (error.stack ?? error.message) : String(error);
  return {
    code: "INTERNAL",
    message: words,
    hint: "This is a bug in cuda-ipc. Please report it.",
  };
}

/** Adds a full stop. Escapes line breaks, which can only come from a name or path. */
function sentence(message: string): string {
  const text = printable(message);
  return /[.!?]$/.test(text) ? text : `${text}.`;
}

/** What to do about an error, in terms of commands. Other errors have the library's own remedy. */
interface Hint {
  readonly code: ErrorCode;
  /** Which errors with this code. Without it, all. */
  readonly message?: RegExp;
  readonly hint: string;
}

const hints: readonly Hint[] = [
  {
    code: "FILE_EXISTS",
    message: /: something other than a file is there$/s,
    hint: "Use another path.",
  },
  {
    code: "FILE_EXISTS",
    message: /: the file is there already$/s,
    hint: "Choose another path, or replace the file with --force.",
  },
  {
    code: "INVALID_FILE",
    message: /^Cannot use the configuration /,
    hint:
      "Correct the file. docs/reference.md lists its fields, " +
      "and `cuda-ipc hub check-config FILE` checks it.",
  },
  {
    code: "INVALID_FILE",
    message: /: its size cannot be known/s,
    hint: "Copy it to an ordinary file first.",
  },
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
    message: /^Cannot save .* to .*: it is /s,
    hint: "Write to a .safetensors file, or choose one array with --array.",
  },
  {
    code: "NOT_FOUND",
    message: /^Cannot take array /,
    hint: "List its arrays with: cuda-ipc inspect NAME --all",
  },
  {
    code: "PEER_GONE",
    message: /^Cannot read channel /,
    hint:
      "Start the sender again. If it uses `cuda-ipc channel send --keep`, " +
      "receivers wait for a sender with --resume.",
  },
  {
    code: "NAME_TAKEN",
    message: /^Cannot (put|load) /,
    hint: "Replace it with --replace, or choose another name.",
  },
  {
    code: "NAME_TAKEN",
    message: /^Cannot (meet|offer memory) at /,
    hint: "Use another path, or end the process that has this one.",
  },
  {
    code: "TIMEOUT",
    message: /^Cannot (meet|get 1 acknowledgement|receive the offer) at |^Cannot read handle file /,
    hint: "Start the other side with the same path within 30 s.",
  },
  {
    code: "TIMEOUT",
    message: /; no machine whose bridge runs has announced it(; |$)/,
    hint: "Announce it on its machine: cuda-ipc bridge --announce NAME. Or wait longer.",
  },
  {
    code: "TIMEOUT",
    message: /; no process has created |has not published it yet(; |$)/,
    hint: "Start the process that publishes it, or wait longer.",
  },
  {
    code: "NAME_TAKEN",
    message: /^Cannot create /,
    hint: "Choose another name. `cuda-ipc ls` shows who owns this one.",
  },
  {
    code: "IN_USE",
    message: /^Cannot open .* as its writer: /,
    hint: "A channel has one sender. Wait until it has ended.",
  },
  {
    code: "IN_USE",
    message: /^Cannot go on with channel /,
    hint: "Wait until it has ended, then send without --resume.",
  },
  { code: "READERS_FULL", hint: "End another receiver, or send with a larger --readers-max." },
  { code: "CHANNEL_FULL", hint: "Send with more --slots, or with another --when-full." },
  {
    code: "MESSAGE_TOO_LARGE",
    message: /^Cannot send /,
    hint: "Send with a larger --byte-length or --shape.",
  },
  {
    code: "INVALID_FILE",
    message: /: its elements are in Fortran order/,
    hint: "Save numpy.ascontiguousarray(array) instead.",
  },
  { code: "HUB_GONE", hint: "Run the command again." },
  {
    code: "HUB_UNAVAILABLE",
    message: /: (a file that is not a socket|a socket of another kind) is there$/,
    hint: "Move that file away, or set CUDA_IPC_SOCKET to another path.",
  },
  {
    code: "HUB_UNAVAILABLE",
    message: /; an earlier hub kept its names there: /,
    hint: "Do what the message says about that file, then run the command again.",
  },
  {
    code: "TIMEOUT",
    message: /; the hub( \(process \d+\))? does not answer/,
    hint: "If the hub stays silent, end its process with kill -9. `pgrep -af cuda-ipc` finds it.",
  },
];

const hintsByErrno: Readonly<Record<string, string>> = {
  ENOENT: "Check the path.",
  ENOTDIR: "Check the path.",
  EISDIR: "Name a file, not a folder.",
  EROFS: "Choose a folder that you can write to. For the hub, set CUDA_IPC_SOCKET.",
};

function hintOf(error: CudaIpcError): string {
  const special = hints.find(
    ({ code, message }) => code === error.code && (message?.test(error.message) ?? true),
  );
  const byErrno = error instanceof SystemError ? hintsByErrno[error.errnoName] : undefined;
  return special?.hint ?? byErrno ?? error.remedy;
}
