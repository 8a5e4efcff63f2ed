/** Starts a hub as a process that outlives this one, and waits until it listens. */
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { childEnvironment } from "../../base/child-environment.js";
import type { Deadline } from "../../base/deadline.js";
import { isErrorCode } from "../../base/error-codes.js";
import { CudaIpcError } from "../../base/errors.js";
import { lastError } from "../../base/last-error.js";
import { leaveOutOfBundle, ownProgram, packageVersion } from "../../base/own-package.js";
import { addedToLog, logSize } from "../../os/log-tail.js";
import { openOwnFile } from "../../os/open-file.js";
import { fromNodeError } from "../../os/system-error.js";
import { KeepAlive } from "./keep-alive.js";

/**
 * The path of the hub's program.
 * @throws UNSUPPORTED if a bundler moved this file: the program is not beside it then
 */
function hubMain(): string {
  const found = packageVersion() === "unknown" ? undefined : ownProgram("hub/main.js");
  if (found !== undefined) return found;
  const missing = "cuda-ipc was bundled without the hub's program";
  const message = `Cannot start a hub: ${missing}. ${leaveOutOfBundle}`;
  throw new CudaIpcError("UNSUPPORTED", message);
}

/**
 * Resolves once a hub listens at the path: this one, or another that was quicker. The folder
 * exists.
 * @param keepAlive whether waiting keeps this process alive
 * @throws HUB_UNAVAILABLE, UNSAFE_RUNTIME_DIR, SOCKET_PATH_TOO_LONG
 */
export async function startHub(
  socketPath: string,
  idleMs: number | undefined,
  deadline: Deadline,
  keepAlive = new KeepAlive(),
): Promise<void> {
  const logPath = `${socketPath}.log`;
  const sizeBefore = logSize(logPath);
  const child = spawnHub(socketPath, idleMs, logPath);
  const { stdout } = child;
  const firstLine = new Promise<string | undefined>((resolve, reject) => {
    child.once("error", (error) => reject(fromNodeError("start a hub", error)));
    // Without a free descriptor there is no pipe either, and only the error comes.
    if (stdout === undefined) return;
    const lines = createInterface({ input: stdout });
    lines.once("line", resolve);
    lines.once("close", () => resolve(undefined));
  });
  // The cast: it is a socket, and the types say less.
  const waits = [child, stdout as (Readable & Pick<ChildProcess, "ref" | "unref">) | undefined];
  for (const it of waits) if (it !== undefined) keepAlive.hold(it);
  try {
    // The hub is not ended: others may have joined it. If nobody does, it ends by itself.
    const words = () => lastError(addedToLog(logPath, sizeBefore));
    check(await deadline.race(firstLine, () => {}), socketPath, logPath, words);
  } finally {
    for (const it of waits) if (it !== undefined) keepAlive.release(it);
    // From here on the hub is independent of this process.
    stdout?.destroy();
    child.unref();
  }
}

/** Its output is undefined if the process could not be made. */
type StartedHub = Omit<ChildProcess, "stdout"> & { readonly stdout: Readable | undefined };

/**
 * Starts a command and ends at once, so the hub is nobody's descendant: supervisors end a program
 * with all its descendants. An image without a shell has no such supervisor, as a rule, and there
 * the hub stays a child of this process.
 */
const SHELL = "/bin/sh";
const IN_BACKGROUND = '"$0" "$@" &';

function spawnHub(socketPath: string, idleMs: number | undefined, logPath: string): StartedHub {
  const idle = idleMs === undefined ? [] : [`--idle-ms=${idleMs}`];
  const log = openOwnFile(logPath, "own-append");
  try {
    const options = {
      detached: true,
      cwd: "/",
      env: childEnvironment(),
      stdio: ["ignore", "pipe", log.number] as const,
    };
    // The cast: the types know no file descriptor here, and no failed start.
    const command = [process.execPath, hubMain(), "--socket", socketPath, ...idle];
    const [program, ...args] = existsSync(SHELL)
      ? [SHELL, "-c", IN_BACKGROUND, ...command]
      : command;
    const child = spawn(program as string, args, {
      ...options,
      stdio: [...options.stdio],
    });
    return child as unknown as StartedHub;
  } finally {
    log.close();
  }
}

/** @param lastWords the error that a hub without a line has written */
function check(
  line: string | undefined,
  socketPath: string,
  logPath: string,
  lastWords: () => string,
): void {
  const failure =
    line === undefined
      ? { code: "HUB_UNAVAILABLE", message: `${diedAtOnce(lastWords())}; see ${logPath}` }
      : parse(line);
  if (failure === undefined || failure.code === "HUB_RUNNING") return;
  const code =
    isErrorCode(failure.code) && failure.code !== "SYSTEM_ERROR" ? failure.code : "HUB_UNAVAILABLE";
  throw new CudaIpcError(code, `Cannot start a hub at ${socketPath}: ${failure.message}`);
}

function diedAtOnce(lastWords: string): string {
  return lastWords === "" ? "it ended at once" : `it ended at once: ${lastWords}`;
}

function parse(line: string): { code: string; message: string } | undefined {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch {
    return { code: "HUB_UNAVAILABLE", message: `it said ${JSON.stringify(line.slice(0, 200))}` };
  }
  if (typeof value !== "object" || value === null || !("ready" in value))
    return { code: "HUB_UNAVAILABLE", message: line };
  if (value.ready === true) return undefined;
  const code = "code" in value ? String(value.code) : "HUB_UNAVAILABLE";
  return { code, message: "message" in value ? String(value.message) : line };
}
