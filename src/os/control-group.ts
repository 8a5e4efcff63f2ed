/** The service of systemd that a process belongs to. When it stops, all its processes end. */
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";

const MOVE_MS = 2000;
const LOOK_MS = 20;

/**
 * The unit, such as `web.service`; undefined outside of services, where a signal is for this
 * process alone. https://man7.org/linux/man-pages/man7/cgroups.7.html
 */
export function serviceOf(pid: number, read = readGroups): string | undefined {
  // Version 2 has one line, 0::/path. Version 1 has a line per controller, and systemd's own.
  const line = /^(?:0:|\d+:name=systemd):(.*)$/m.exec(read(pid));
  const units = line?.[1]?.split("/").filter((name) => /\.(service|scope)$/.test(name)) ?? [];
  const innermost = units.at(-1);
  // user@1000.service holds all that a user's service manager runs, sessions and scopes included.
  const isService = innermost?.endsWith(".service") && !innermost.startsWith("user@");
  return isService ? innermost : undefined;
}

/** How `leaveService` asks systemd and looks at the result. */
export interface ServiceDoor {
  /** Runs busctl. Throws if it fails. */
  readonly call: (args: readonly string[]) => Promise<unknown>;
  readonly read: (pid: number) => string;
}

/**
 * Moves this process into a scope of its own, as `systemd-run --scope` does with a new one. So it
 * outlives the service whose program started it. Call it before this process has children.
 * https://www.freedesktop.org/software/systemd/man/latest/org.freedesktop.systemd1.html
 * @returns the service that it still belongs to: it never left, or systemd would not let it go
 */
export async function leaveService(
  description: string,
  { call, read }: ServiceDoor = { call: callSystemd, read: readGroups },
): Promise<string | undefined> {
  const { pid } = process;
  const look = () => serviceOf(pid, read);
  if (look() === undefined) return undefined;
  const properties = [
    ["PIDs", "au", "1", String(pid)],
    ["Description", "s", description],
    // Nobody who logs out or turns the machine off waits for longer.
    ["TimeoutStopUSec", "t", "5000000"],
    ["CollectMode", "s", "inactive-or-failed"],
  ];
  const unit = `cuda-ipc-hub-${pid}.scope`;
  const counted = [String(properties.length), ...properties.flat()];
  try {
    await call([...START_UNIT, unit, "fail", ...counted, "0"]);
  } catch {
    // No systemd that this process can ask.
    return look();
  }
  // The answer comes before the move.
  for (let waitedMs = 0; look() !== undefined && waitedMs < MOVE_MS; waitedMs += LOOK_MS)
    await sleep(LOOK_MS);
  return look();
}

const MANAGER = "org.freedesktop.systemd1";
const START_UNIT = [
  ...["call", MANAGER, "/org/freedesktop/systemd1", `${MANAGER}.Manager`],
  ...["StartTransientUnit", "ssa(sv)a(sa(sv))"],
];

/** Asks the user's own manager; root asks the machine's. */
async function callSystemd(args: readonly string[]): Promise<void> {
  const uid = process.geteuid?.();
  const manager = uid === 0 ? "--system" : "--user";
  const env = { XDG_RUNTIME_DIR: `/run/user/${uid}`, ...process.env };
  await promisify(execFile)("busctl", [manager, ...args], { env, timeout: MOVE_MS });
}

function readGroups(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cgroup`, "utf8");
  } catch {
    // No /proc, no service manager.
    return "";
  }
}
