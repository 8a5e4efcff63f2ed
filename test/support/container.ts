/**
 * A stand-in for a container. It has its own PID, mount, IPC, network and user namespaces, its own
 * /dev/shm and temporary folder, and shares one folder with the machine. Needs only `unshare`.
 */
import { spawnSync } from "node:child_process";
import { tmpdir } from "node:os";
import { fileURLToPath } from "node:url";
import { TestFolder } from "./test-folder.js";

const UNSHARE = [
  "unshare",
  "--user",
  "--map-root-user",
  "--pid",
  "--ipc",
  "--net",
  "--mount",
  "--fork",
  "--kill-child",
];

/** The project's folder, which may lie in the temporary folder. */
const PROJECT = fileURLToPath(new URL("../../..", import.meta.url));

/**
 * $0 is the shared folder, $1 its mount option, and $2 a shell command to run first. The rest is
 * the command.
 */
const SETUP = `set -e
# WHY: root in here is charged with the descriptors that all tests of root have in flight.
ulimit -n "$(ulimit -H -n)"
mount -t tmpfs tmpfs /mnt
mkdir /mnt/shared /mnt/project
mount --bind "$0" /mnt/shared
mount --bind "${PROJECT}" /mnt/project
mount -t tmpfs tmpfs "${tmpdir()}"
mkdir -p "$0" "${PROJECT}"
mount --bind /mnt/shared "$0"
mount --bind /mnt/project "${PROJECT}"
umount /mnt/shared /mnt/project
umount /mnt
mount -o "remount,bind,$1" "$0"
mount -t tmpfs tmpfs /dev/shm
eval "$2"
shift 2
exec "$@"`;

export interface ContainerOptions {
  /** Mount the folder read-only. */
  readonly readOnly?: boolean;
  /** Keep the machine's /proc. It shows the processes of another PID namespace. */
  readonly foreignProc?: boolean;
  /** A shell command that runs first in the container, to take something away from it. */
  readonly restrict?: string;
}

/** The prefix that runs a command in its own container, which shares this folder. */
export function inContainer(
  folder: string,
  { readOnly = false, foreignProc = false, restrict = ":" }: ContainerOptions = {},
): string[] {
  const proc = foreignProc ? [] : ["--mount-proc"];
  return [...UNSHARE, ...proc, "sh", "-c", SETUP, folder, readOnly ? "ro" : "rw", restrict];
}

/** Why tests with containers are skipped; false if they run. */
export const skipWithoutContainers: string | false = (() => {
  using folder = new TestFolder();
  const [command = "", ...args] = [...inContainer(folder.path), "true"];
  return (
    spawnSync(command, args).status !== 0 &&
    "namespaces cannot be made here (unshare --user --pid --mount)"
  );
})();
