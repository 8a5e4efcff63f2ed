/**
 * The processes of a demo by its folder: the hubs, keepers, bridges and actors of a machine, and
 * nats-server, all have a path in it among their arguments. The folder is new, so nobody else does.
 */
import { readdirSync, readFileSync } from "node:fs";

const POLL_MS = 10;

export interface FolderProcess {
  readonly pid: number;
  /** With its arguments. */
  readonly command: string;
}

/** All of this user but this process. */
export function processesIn(folder: string, proc = "/proc"): FolderProcess[] {
  return readdirSync(proc).flatMap((entry) => {
    const pid = Number(entry);
    if (!Number.isInteger(pid) || pid === process.pid) return [];
    const command = commandOf(`${proc}/${pid}`);
    return command.includes(`${folder}/`) ? [{ pid, command }] : [];
  });
}

/** Kills them, and those that they start meanwhile. Resolves when there are none. */
export async function killProcessesIn(folder: string): Promise<void> {
  for (;;) {
    const found = processesIn(folder);
    if (found.length === 0) return;
    for (const { pid } of found) tryKill(pid);
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

/** Empty for a process that has ended, or of another user. */
function commandOf(folder: string): string {
  try {
    // WHY first: another user can keep a read of the command line from ending (command-reader.ts).
    const status = readFileSync(`${folder}/status`, "utf8");
    if (Number(/^Uid:\t(\d+)/m.exec(status)?.[1]) !== process.getuid?.()) return "";
    return readFileSync(`${folder}/cmdline`, "utf8").replaceAll("\0", " ");
  } catch {
    return "";
  }
}

function tryKill(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // It has ended by itself.
  }
}
