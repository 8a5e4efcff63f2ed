/** Writes received messages: all to standard output, all to one file, or each to its own file. */
import { type FileHandle, stat } from "node:fs/promises";
import { SystemError } from "../../base/errors.js";
import type { ReceivedSlot } from "../../channel/received-slot.js";
import { writeFileAtomically } from "../../files/atomic-write.js";
import { fileSystemError } from "../../files/file-errors.js";
import { openOutputFile } from "../../files/output-file.js";
import type { CommandContext } from "../command-context.js";
import { UsageError } from "../terminal/error-report.js";
import { StandardOutput } from "../terminal/standard-output.js";
import { type MessageFormat, messageBytes } from "./message-bytes.js";

export interface MessageSink {
  /** False once the reader of the output has gone. */
  readonly isOpen: boolean;
  /** Once it resolves, the slot may be released. */
  take(slot: ReceivedSlot): Promise<void>;
  /** Writes what was buffered. Called before a wait for the next message. */
  flush(): Promise<void>;
  close(): Promise<void>;
}

/** Small messages are buffered up to this size. */
const BUFFER_BYTES = 64 * 1024;

interface Output {
  readonly isOpen: boolean;
  readonly write: (bytes: Uint8Array) => Promise<void>;
  readonly close?: () => Promise<void>;
}

/** Writes all messages to one output, one after the other. */
class JoinedSink implements MessageSink {
  readonly #format: MessageFormat;
  readonly #signal: AbortSignal;
  readonly #to: Output;
  readonly #buffer = new Uint8Array(BUFFER_BYTES);
  #byteLength = 0;

  constructor(to: Output, format: MessageFormat, signal: AbortSignal) {
    this.#to = to;
    this.#format = format;
    this.#signal = signal;
  }

  get isOpen(): boolean {
    return this.#to.isOpen;
  }

  async take(slot: ReceivedSlot): Promise<void> {
    for await (const piece of messageBytes(slot, this.#format, this.#signal)) {
      if (piece.byteLength > BUFFER_BYTES - this.#byteLength) await this.flush();
      if (piece.byteLength > BUFFER_BYTES) await this.#to.write(piece);
      else {
        this.#buffer.set(piece, this.#byteLength);
        this.#byteLength += piece.byteLength;
      }
    }
  }

  async flush(): Promise<void> {
    if (this.#byteLength === 0) return;
    const bytes = this.#buffer.subarray(0, this.#byteLength);
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
 * Writes all messages to one file, which is created with the first message.
 * @throws FILE_EXISTS at once, unless `force` is set
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
    file ??= await whileDoing(attempt, () => openOutputFile(path, force));
    const to = file;
    await whileDoing(attempt, () => writeAll(to, bytes));
  };
  return new JoinedSink({ isOpen: true, write, close: async () => file?.close() }, format, signal);
}

async function refuseExisting(path: string): Promise<void> {
  const found = await stat(path).catch(() => undefined);
  if (found === undefined) return;
  const message = `Cannot write ${JSON.stringify(path)}: the file exists`;
  throw new SystemError("FILE_EXISTS", message, { errno: 17, errnoName: "EEXIST", call: "stat" });
}

/** A path with the sequence number of a message in it. */
interface FilePattern {
  readonly before: string;
  readonly after: string;
  /** The least number of digits. */
  readonly width: number;
}

/**
 * Parses `frame-%d.npy` or `frame-%06d.npy`. Returns undefined for a path without a number.
 * @throws UsageError
 */
export function filePattern(path: string): FilePattern | undefined {
  const [found, second] = path.matchAll(/%(?:0(\d))?d/g);
  if (found === undefined) return undefined;
  if (second !== undefined)
    throw new UsageError(`${path} has more than one %d, but a message has only one number`);
  const before = path.slice(0, found.index);
  const after = path.slice(found.index + found[0].length);
  return { before, after, width: Number(found[1] ?? 1) };
}

export function pathOf({ before, after, width }: FilePattern, sequence: number): string {
  return `${before}${String(sequence).padStart(width, "0")}${after}`;
}

/** Writes each message to its own file, which appears whole or not at all. */
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
      // WHY not durable: a disk syncs only some hundred files a second.
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
