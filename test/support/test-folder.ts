/** A temporary folder (mode 0700) of a test. Its disposal ends any hub that listens in it. */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { tryLock } from "../../src/os/file-lock.js";
import { openFile } from "../../src/os/open-file.js";
import { SeqpacketSocket } from "../../src/os/seqpacket.js";
import { until } from "./until.js";

export class TestFolder {
  readonly path: string;

  constructor(parent = tmpdir()) {
    this.path = mkdtempSync(join(parent, "cuda-ipc-test-"));
  }

  /** The socket path for a hub of this test. */
  get socket(): string {
    return this.file("hub.sock");
  }

  file(name: string): string {
    return join(this.path, name);
  }

  [Symbol.dispose](): void {
    // WHY retries: a killed process may have created a file in it meanwhile.
    rmSync(this.path, { recursive: true, force: true, maxRetries: 10 });
  }

  /** Ends the hub of this folder, whoever started it, and its keeper. Then removes the folder. */
  async [Symbol.asyncDispose](): Promise<void> {
    await killHub(this.path);
    this[Symbol.dispose]();
  }
}

/** Kills the hub of this folder and its keeper, both at once. */
export async function killHub(folder: string): Promise<void> {
  const socketPath = join(folder, "hub.sock");
  await until(`no hub holds the lock of ${socketPath}`, () => {
    endHub(folder);
    return isUnlocked(`${socketPath}.lock`);
  });
}

/** WHY not with `tryLockFile`: the hub may have run as another user. */
function isUnlocked(path: string): boolean {
  using lock = openFile(path, "own");
  return tryLock(lock);
}

/** Kills hub and keeper. WHY by signal: a hub that a test has broken may not answer. */
export function endHub(folder: string): void {
  const keepers = keepersIn(folder);
  const hub = hubAt(join(folder, "hub.sock"));
  if (hub === process.pid)
    throw new Error("The hub of this folder runs in the test itself; stop it there");
  // WHY stop the hub first: it would start another keeper, and a keeper would start another hub.
  if (hub !== undefined) tryKill(hub, "SIGSTOP");
  for (const pid of keepers) tryKill(pid, "SIGKILL");
  if (hub !== undefined) tryKill(hub, "SIGKILL");
}

/** The keepers of hubs in this folder. Each has its hub's socket in its arguments. */
export function keepersIn(folder: string): number[] {
  return readdirSync("/proc").flatMap((name) => {
    // WHY search: options of Node come before the program.
    const args = /^\d+$/.test(name) ? argumentsOf(name) : [];
    const program = args.findIndex((argument) => argument.endsWith("/keeper/main.js"));
    const socket = args[program + 2] ?? "";
    return program > 0 && dirname(socket) === folder ? [Number(name)] : [];
  });
}

function argumentsOf(pid: string): string[] {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0");
  } catch {
    return [];
  }
}

/** The pid of the hub that listens there. Undefined if none does. */
export function hubAt(socketPath: string): number | undefined {
  try {
    const socket = SeqpacketSocket.connect(socketPath);
    const { pid } = socket.peerCredentials();
    socket.close();
    return pid;
  } catch {
    // No hub listens, so there is nothing to end.
    return undefined;
  }
}

function tryKill(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if (!(error instanceof Error && "code" in error && error.code === "ESRCH")) throw error;
  }
}
