/**
 * A program that a demo starts in the background: nats-server, or a bridge. The demo ends it with
 * all processes of its folder.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { isErrorCode } from "../../../base/error-codes.js";
import { CudaIpcError } from "../../../base/errors.js";

const POLL_MS = 10;

export class StartedProgram {
  readonly pid: number;
  readonly #title: string;
  readonly #child: ChildProcess;
  #output = "";
  #failure: Error | undefined;

  /** @param title of the program in errors */
  static start(
    title: string,
    [program = "", ...args]: readonly string[],
    env: NodeJS.ProcessEnv,
  ): StartedProgram {
    // WHY detached: Ctrl-C reaches all processes of a terminal, and the demo ends these itself.
    const child = spawn(program, args, { env, detached: true, stdio: ["ignore", "pipe", "pipe"] });
    return new StartedProgram(title, child);
  }

  private constructor(title: string, child: ChildProcess) {
    this.#title = title;
    this.#child = child;
    this.pid = child.pid ?? 0;
    child.once("error", (error) => {
      this.#failure = error;
    });
    for (const stream of [child.stdout, child.stderr])
      stream?.setEncoding("utf8").on("data", (text: string) => {
        this.#output += text;
      });
  }

  /**
   * Waits until the program has printed this, and returns what matched.
   * @throws what it printed as its error; PEER_GONE if it ended without one
   */
  async printed(pattern: RegExp, signal: AbortSignal): Promise<RegExpExecArray> {
    for (;;) {
      signal.throwIfAborted();
      const found = pattern.exec(this.#output);
      if (found !== null) return found;
      this.#checkRuns();
      await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    }
  }

  #checkRuns(): void {
    const { exitCode, signalCode } = this.#child;
    if (this.#failure === undefined && exitCode === null && signalCode === null) return;
    const [, code = "PEER_GONE", message] = /^error\[(\w+)\]: (.+)$/m.exec(this.#output) ?? [];
    const how = this.#failure?.message ?? signalCode ?? `exit code ${exitCode}`;
    const why = message ?? `it ended too early, with ${how}`;
    throw new CudaIpcError(
      isErrorCode(code) ? code : "SYSTEM_ERROR",
      `Cannot go on without ${this.#title}: ${why}`,
    );
  }
}
