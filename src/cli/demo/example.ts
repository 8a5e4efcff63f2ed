/**
 * Runs an example as a process of its own, within a time limit: all of it in a temporary folder, or
 * one of its roles in the user's own surroundings. Prints its lines as they come, and throws its
 * failure.
 */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { dirname } from "node:path";
import { createInterface } from "node:readline";
import { isErrorCode } from "../../base/error-codes.js";
import { CudaIpcError } from "../../base/errors.js";
import { ownProgram } from "../../base/own-package.js";
import { connect } from "../../client/connect.js";
import type { CommandContext } from "../command-context.js";
import { endHub } from "../join-hub.js";
import { withTemporarySocket } from "../temporary-folder.js";
import { UsageError } from "../terminal/error-report.js";

export interface ExampleOptions {
  readonly device?: string | undefined;
  readonly elements?: number | undefined;
  readonly processes?: number | undefined;
}

/** The part of an example that runs in this terminal. The others run elsewhere. */
export interface ExampleRole {
  readonly role: string;
  /** Where the roles meet: a path or a name. */
  readonly meetingPoint: string | undefined;
}

const TIME_LIMIT_MS = 120_000;
/** How long an example may take to stop before it is killed. */
const GRACE_MS = 2_000;

/** Resolves to the reason if the example cannot run on this device. */
export async function runExample(
  name: string,
  options: ExampleOptions,
  context: CommandContext,
): Promise<string | undefined> {
  return withTemporarySocket("cuda-ipc-demo-", async (socket) => {
    const folder = dirname(socket);
    // With all three, the example and the package write only into the folder, which is removed.
    const env = {
      ...process.env,
      TMPDIR: folder,
      XDG_RUNTIME_DIR: folder,
      CUDA_IPC_SOCKET: socket,
    };
    const child = fork(fileOf(name), argumentsOf(options), {
      env,
      execArgv: [],
      stdio: ["ignore", "pipe", "inherit", "ipc"],
    });
    try {
      return await new RunningExample(child, name, context).done(TIME_LIMIT_MS);
    } catch (error) {
      await endLeftHub(socket);
      throw error;
    }
  });
}

/** Ends the hub of an example that failed: a pinned object would keep that hub running. */
async function endLeftHub(socket: string): Promise<void> {
  const options = { socket, start: false, reconnect: false, timeoutMs: GRACE_MS };
  const hub = await connect(options).catch(() => undefined);
  if (hub === undefined) return;
  await endHub(hub, { force: true }).finally(() => hub.close());
}

/**
 * Runs one role. Its surroundings are the user's own, because the other roles must meet it there.
 * Resolves to the reason if the role cannot run on this device.
 */
export async function runRole(
  name: string,
  { role, meetingPoint }: ExampleRole,
  options: ExampleOptions,
  context: CommandContext,
): Promise<string | undefined> {
  const words = [role, ...(meetingPoint === undefined ? [] : [meetingPoint])];
  // WHY "--": a meeting point may begin with a dash.
  const child = fork(fileOf(name), [...argumentsOf(options), "--", ...words], {
    execArgv: [],
    stdio: ["inherit", "pipe", "inherit", "ipc"],
  });
  // No limit: each wait of a role has its own, and a daemon runs until it is told to end.
  return new RunningExample(child, name, context).done(undefined);
}

/** Examples are in dist/examples in the package, and in build/examples for tests. */
function fileOf(name: string): string {
  const paths = [`examples/${name}.js`, `../examples/${name}.js`];
  const file = paths.map(ownProgram).find((path) => path !== undefined);
  if (file === undefined) {
    throw new CudaIpcError(
      "INVALID_FILE",
      `Cannot run example "${name}": neither ${paths.join(" nor ")} exists`,
    );
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

  async done(limitMs: number | undefined): Promise<string | undefined> {
    const { signal, terminal } = this.#context;
    const child = this.#child;
    child.on("message", (message) => {
      this.#failure ??= failureOf(message);
      this.#skipped ??= textOf("skipped", message);
    });
    const lines = createInterface({ input: child.stdout ?? process.stdin });
    lines.on("line", (line) => terminal.line(`  ${line}`));
    const timer =
      limitMs === undefined ? undefined : setTimeout(() => this.#tooLate(limitMs), limitMs);
    const onInterrupt = () => this.#end();
    signal.addEventListener("abort", onInterrupt);
    if (signal.aborted) onInterrupt();
    try {
      const [code, byName] = await endOf(child);
      signal.throwIfAborted();
      if (this.#failure !== undefined) throw this.#failure;
      if (code === 0 || this.#skipped !== undefined) return this.#skipped;
      throw new CudaIpcError(
        "PEER_GONE",
        `Cannot finish example "${this.#name}": it ended too early, ` +
          `with ${byName ?? `exit code ${code}`}`,
      );
    } finally {
      clearTimeout(timer);
      signal.removeEventListener("abort", onInterrupt);
      lines.close();
    }
  }

  #tooLate(limitMs: number): void {
    const found = `it was not done within ${limitMs / 1000} s`;
    this.#failure = new CudaIpcError("TIMEOUT", `Cannot finish the example: ${found}`);
    this.#end();
  }

  /** Disconnects, which makes the example and its children end by themselves. */
  #end(): void {
    if (this.#child.connected) this.#child.disconnect();
    setTimeout(() => this.#child.kill("SIGKILL"), GRACE_MS).unref();
  }
}

/**
 * Resolves when the process has ended and all its output has arrived.
 * WHY not "close": that event never comes if this side has disconnected.
 */
async function endOf(child: ChildProcess): Promise<readonly [number | null, string | null]> {
  try {
    const all = [
      once(child, "exit"),
      once(child, "disconnect"),
      once(child.stdout ?? process.stdin, "close"),
    ];
    const [how] = await Promise.all(all);
    return how as [number | null, string | null];
  } catch {
    // The process could not be started.
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

/** The text of a message of this kind, or undefined if it is another message. */
function textOf(kind: "failed" | "skipped", message: unknown): string | undefined {
  if (
    typeof message !== "object" ||
    message === null ||
    !("kind" in message) ||
    message.kind !== kind
  )
    return undefined;
  return "message" in message ? String(message.message) : "";
}
