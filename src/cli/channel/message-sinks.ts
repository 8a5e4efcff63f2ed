/** Where received messages go: one after another to standard output or into a file, or into a file each. */
import { type FileHandle, open, stat } from "node:fs/promises";
import { SystemError } from "../../base/errors.js";
import type { ReceivedSlot } from "../../channel/received-slot.js";
import { writeFileAtomically } from "../../files/atomic-write.js";
import { fileSystemError } from "../../files/file-errors.js";
import type { CommandContext } from "../command-context.js";
import { StandardOutput } from "../standard-output.js";
import { type MessageFormat, messageBytes } from "./message-bytes.js";
import { type FilePattern, pathOf } from "./output-pattern.js";

export interface MessageSink {
  /** False once nobody takes any more. */
  readonly isOpen: boolean;
  /** Needs the message no longer once it resolves. */
  take(slot: ReceivedSlot): Promise<void>;
  /** No message is there for now: what was gathered goes out. */
  flush(): Promise<void>;
  close(): Promise<void>;
}

/** Small messages are gathered up to this. */
const GATHERED_BYTES = 64 * 1024;

interface Taker {
  readonly isOpen: boolean;
  readonly write: (bytes: Uint8Array) => Promise<void>;
  readonly close?: () => Promise<void>;
}

/** One after another. */
class JoinedSink implements MessageSink {
  readonly #format: MessageFormat;
  readonly #signal: AbortSignal;
  readonly #to: Taker;
  readonly #gathered = new Uint8Array(GATHERED_BYTES);
  #byteLength = 0;

  constructor(to: Taker, format: MessageFormat, signal: AbortSignal) {
    this.#to = to;
    this.#format = format;
    this.#signal = signal;
  }

  get isOpen(): boolean {
    return this.#to.isOpen;
  }

  async take(slot: ReceivedSlot): Promise<void> {
    for await (const piece of messageBytes(slot, this.#format, this.#signal)) {
      if (piece.byteLength > GATHERED_BYTES - this.#byteLength) await this.flush();
      if (piece.byteLength > GATHERED_BYTES) await this.#to.write(piece);
      else {
        this.#gathered.set(piece, this.#byteLength);
        this.#byteLength += piece.byteLength;
      }
    }
  }

  async flush(): Promise<void> {
    if (this.#byteLength === 0) return;
    const bytes = this.#gathered.subarray(0, this.#byteLength);
    this.#byteLength = 0;
    await this.#to.write(bytes);
  }

  async close(): Promise<void> {
    try {
      await this.flush();
    } finally {
      await this.#to.close?.();
    }
  }
}

export function standardOutputSink(format: MessageFormat, context: CommandContext): MessageSink {
  const output = new StandardOutput(context);
  const to = {
    get isOpen() {
      return output.isOpen;
    },
    write: (bytes: Uint8Array) => output.write(bytes),
  };
  return new JoinedSink(to, format, context.signal);
}

/**
 * Looks at once whether the file may be written; it is there from the first message on.
 * @throws FILE_EXISTS without `force`
 */
export async function fileSink(
  path: string,
  force: boolean,
  format: MessageFormat,
  { signal }: CommandContext,
): Promise<MessageSink> {
  const attempt = `write ${JSON.stringify(path)}`;
  if (!force) await refuseExisting(path);
  let file: FileHandle | undefined;
  const write = async (bytes: Uint8Array) => {
    file ??= await whileDoing(attempt, () => open(path, force ? "w" : "wx"));
    const to = file;
    await whileDoing(attempt, () => writeAll(to, bytes));
  };
  return new JoinedSink({ isOpen: true, write, close: async () => file?.close() }, format, signal);
}

async function refuseExisting(path: string): Promise<void> {
  const found = await stat(path).catch(() => undefined);
  if (found === undefined) return;
  const message = `Cannot write ${JSON.stringify(path)}: the file is there already`;
  throw new SystemError("FILE_EXISTS", message, { errno: 17, errnoName: "EEXIST", call: "stat" });
}

/** A file each, which is there whole or not at all. */
export function filesSink(
  pattern: FilePattern,
  force: boolean,
  format: MessageFormat,
  { signal }: CommandContext,
): MessageSink {
  return {
    isOpen: true,
    take: async (slot) => {
      const path = pathOf(pattern, slot.sequence);
      // WHY not durable: a disk takes some hundred files a second that way.
      await writeFileAtomically(path, { force, durable: false }, async (file) => {
        for await (const piece of messageBytes(slot, format, signal)) await writeAll(file, piece);
      });
    },
    flush: async () => {},
    close: async () => {},
  };
}

async function writeAll(file: FileHandle, bytes: Uint8Array): Promise<void> {
  for (let done = 0; done < bytes.byteLength; ) {
    const { bytesWritten } = await file.write(bytes, done);
    done += bytesWritten;
  }
}

async function whileDoing<T>(attempt: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw fileSystemError(attempt, error);
  }
}
