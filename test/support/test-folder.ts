/** A folder of a test's own (0700) in the folder for temporary files, and the end of any hub that listens there. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { tryLockFile } from "../../src/os/file-lock.js";
import { SeqpacketSocket } from "../../src/os/seqpacket.js";
import { until } from "./until.js";

export class TestFolder {
  readonly path: string;

  constructor() {
    this.path = mkdtempSync(join(tmpdir(), "cuda-ipc-test-"));
  }

  /** Where a hub of this test listens. */
  get socket(): string {
    return this.file("hub.sock");
  }

  file(name: string): string {
    return join(this.path, name);
  }

  [Symbol.dispose](): void {
    rmSync(this.path, { recursive: true, force: true });
  }

  /** Ends the hub that listens in this folder, whoever started it, and removes the folder. */
  async [Symbol.asyncDispose](): Promise<void> {
    endHub(this.socket);
    await until(`no hub holds the lock of ${this.socket}`, () => this.#unlocked());
    this[Symbol.dispose]();
  }

  #unlocked(): boolean {
    const lock = tryLockFile(`${this.socket}.lock`);
    lock?.close();
    return lock !== undefined;
  }
}

/** WHY by signal: a hub that a test has brought into trouble may not answer. */
function endHub(socketPath: string): void {
  let pid: number;
  try {
    const socket = SeqpacketSocket.connect(socketPath);
    ({ pid } = socket.peerCredentials());
    socket.close();
  } catch {
    // Nobody listens: there is nothing to end.
    return;
  }
  if (pid === process.pid) throw new Error("The hub of this folder runs in the test itself; stop it there");
  try {
    process.kill(pid, "SIGKILL");
  } catch (error) {
    if (!(error instanceof Error && "code" in error && error.code === "ESRCH")) throw error;
  }
}
