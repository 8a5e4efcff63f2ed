/**
 * Writes bytes to standard output with back-pressure and without blocking the event loop. A closed
 * pipe is no error.
 */
import { fstatSync, write } from "node:fs";
import { promisify } from "node:util";
import { hasCode } from "../../base/errors.js";
import { fileSystemError } from "../../files/file-errors.js";
import type { CommandContext } from "../command-context.js";

const STDOUT = 1;
const writeTo = promisify(write);

export class StandardOutput {
  readonly #context: CommandContext;
  readonly #isFile = fstatSync(STDOUT).isFile();
  #isOpen = true;

  constructor(context: CommandContext) {
    this.#context = context;
  }

  /** False once the reader has closed the pipe. */
  get isOpen(): boolean {
    return this.#isOpen;
  }

  /**
   * Resolves when the bytes are written, or when the pipe is closed.
   * @throws DISK_FULL, ABORTED
   */
  async write(bytes: Uint8Array): Promise<void> {
    if (!this.#isOpen) return;
    try {
      await (this.#isFile ? writeAll(bytes) : this.#send(bytes));
    } catch (error) {
      if (isErrno(error, "EPIPE")) this.#isOpen = false;
      else
        throw hasCode(error, "ABORTED")
          ? error
          : fileSystemError("write to standard output", error);
    }
  }

  async #send(bytes: Uint8Array): Promise<void> {
    const { signal } = this.#context;
    signal.throwIfAborted();
    await new Promise<void>((resolve, reject) => {
      const onAbort = () => {
        // WHY: the reader may never take them, and the process would wait for it at its end.
        this.#context.leavesOutput = true;
        reject(signal.reason);
      };
      signal.addEventListener("abort", onAbort, { once: true });
      process.stdout.write(bytes, (error) => {
        signal.removeEventListener("abort", onAbort);
        if (error) reject(error);
        else resolve();
      });
    });
  }
}

/** WHY not process.stdout: on a full disk it reports a partial write as complete. */
async function writeAll(bytes: Uint8Array): Promise<void> {
  for (let done = 0; done < bytes.byteLength; ) {
    const { bytesWritten } = await writeTo(STDOUT, bytes, done);
    done += bytesWritten;
  }
}

function isErrno(error: unknown, errnoName: string): boolean {
  return error instanceof Error && "code" in error && error.code === errnoName;
}
