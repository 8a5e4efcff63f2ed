/**
 * Runs one of the examples as a process of its own, whose children end with it, in a temporary folder, within a time limit. Its lines
 * are printed as they come; what it failed with is thrown here.
 */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { dirname } from "node:path";
import { createInterface } from "node:readline";
import { isErrorCode } from "../../base/error-codes.js";
import { CudaIpcError } from "../../base/errors.js";
import { ownProgram } from "../../base/own-program.js";
import type { CommandContext } from "../command-context.js";
import { UsageError } from "../error-report.js";
import { withTemporarySocket } from "../temporary-folder.js";

export interface ExampleOptions {
  readonly device?: string | undefined;
  readonly elements?: number | undefined;
  readonly processes?: number | undefined;
}

const TIME_LIMIT_MS = 120_000;
/** How long an example that was told to stop may take before it is ended by force. */
const GRACE_MS = 2_000;

/** Resolves to why the example cannot be run on this device, where that is so. */
export async function runExample(
  name: string,
  options: ExampleOptions,
  context: CommandContext,
): Promise<string | undefined> {
  return withTemporarySocket("cuda-ipc-demo-", async (socket) => {
    const folder = dirname(socket);
    // WHY all three: whatever the example and the package put somewhere then lies in the folder that is removed afterwards.
    const env = { ...process.env, TMPDIR: folder, XDG_RUNTIME_DIR: folder, CUDA_IPC_SOCKET: socket };
    const child = fork(fileOf(name), argumentsOf(options), {
      env,
      execArgv: [],
      stdio: ["ignore", "pipe", "inherit", "ipc"],
    });
    return new RunningExample(child, name, context).done();
  });
}

/** WHY two places: compiled for the package they lie in dist/examples, for tests in build/examples. */
function fileOf(name: string): string {
  const places = [`examples/${name}.js`, `../examples/${name}.js`];
  const file = places.map(ownProgram).find((path) => path !== undefined);
  if (file === undefined) {
    throw new CudaIpcError("INVALID_FILE", `Cannot run example "${name}": looked for ${places.join(" and ")}`);
  }
  return file;
}

function argumentsOf({ device, elements, processes }: ExampleOptions): string[] {
  return [
    ...(device === undefined ? [] : ["--device", device]),
    ...(elements === undefined ? [] : ["--elements", String(elements)]),
    ...(processes === undefined ? [] : ["--processes", String(processes)]),
  ];
}

class RunningExample {
  readonly #child: ChildProcess;
  readonly #name: string;
  readonly #context: CommandContext;
  #failure: Error | undefined;
  #skipped: string | undefined;

  constructor(child: ChildProcess, name: string, context: CommandContext) {
    this.#child = child;
    this.#name = name;
    this.#context = context;
  }

  async done(): Promise<string | undefined> {
    const { signal, terminal } = this.#context;
    const child = this.#child;
    child.on("message", (message) => {
      this.#failure ??= failureOf(message);
      this.#skipped ??= textOf("skipped", message);
    });
    const lines = createInterface({ input: child.stdout ?? process.stdin });
    lines.on("line", (line) => terminal.line(`  ${line}`));
    const timer = setTimeout(() => {
      this.#failure = new CudaIpcError("TIMEOUT", `The example was not done within ${TIME_LIMIT_MS / 1000} s`);
      this.#end();
    }, TIME_LIMIT_MS);
    const onInterrupt = () => this.#end();
    signal.addEventListener("abort", onInterrupt);
    if (signal.aborted) onInterrupt();
    try {
      const [code, byName] = await endOf(child);
      signal.throwIfAborted();
      if (this.#failure !== undefined) throw this.#failure;
      if (code === 0) return this.#skipped;
      throw new CudaIpcError(
        "PEER_GONE",
        `The example "${this.#name}" ended too early: ${byName ?? `exit code ${code}`}`,
      );
    } finally {
      clearTimeout(timer);
      signal.removeEventListener("abort", onInterrupt);
      lines.close();
    }
  }

  /** Hanging up makes it end by itself, and its children with it. */
  #end(): void {
    if (this.#child.connected) this.#child.disconnect();
    setTimeout(() => this.#child.kill("SIGKILL"), GRACE_MS).unref();
  }
}

/** How it ended, once all that it said has arrived. WHY not "close": that never comes where this side hung up. */
async function endOf(child: ChildProcess): Promise<readonly [number | null, string | null]> {
  try {
    const all = [once(child, "exit"), once(child, "disconnect"), once(child.stdout ?? process.stdin, "close")];
    const [how] = await Promise.all(all);
    return how as [number | null, string | null];
  } catch {
    // It could not be started.
    return [null, null];
  }
}

function failureOf(message: unknown): Error | undefined {
  const text = textOf("failed", message);
  if (text === undefined) return undefined;
  const { code } = message as { readonly code?: unknown };
  if (code === "USAGE") return new UsageError(text);
  const known = typeof code === "string" && isErrorCode(code) ? code : "SYSTEM_ERROR";
  return new CudaIpcError(known, text);
}

/** What a message of this kind says. */
function textOf(kind: "failed" | "skipped", message: unknown): string | undefined {
  if (typeof message !== "object" || message === null || !("kind" in message) || message.kind !== kind)
    return undefined;
  return "message" in message ? String(message.message) : "";
}
