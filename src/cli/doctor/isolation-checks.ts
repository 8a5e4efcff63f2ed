/** What separates this process from others, and what that means for each way of sharing. Read, not tried. */
import { sizeWords } from "../words.js";
import { type Check, fact } from "./check.js";
import type { Surroundings } from "./surroundings.js";

/** The inode of the first PID namespace of a Linux kernel: PROC_PID_INIT_INO, the same on every machine. */
const FIRST_PID_NAMESPACE = "pid:[4026531836]";
const CONTAINER_CGROUP = /docker|kubepods|containerd|libpod|crio|lxc/;
const CONTAINER_SHM_BYTES = 64 * 1024 * 1024;
const SCARCE_BYTES = 1024 * 1024;

export function isolationChecks(surroundings: Surroundings): Check[] {
  return [
    containerCheck(surroundings),
    shmCheck(surroundings),
    ptraceCheck(surroundings),
    ...seccompChecks(surroundings),
  ];
}

function containerCheck(surroundings: Surroundings): Check {
  const signs = containerSigns(surroundings);
  const namespace = pidNamespace(surroundings);
  const found = signs.length === 0 ? "no sign of one" : `signs of one (${signs.join(", ")})`;
  const detail = `${found}; ${namespaceWords[namespace]}`;
  if (signs.length === 0 && namespace !== "own") return fact("container", detail);
  const pid = namespacePids(surroundings).at(-1);
  const ownNumber = pid === undefined ? "" : `; this one's is ${pid}`;
  return fact("container", detail, {
    notes: [
      "memory files, VMM and pools: descriptors travel through a socket; mount its folder into both, same user id",
      `legacy memory handles: the PIDs of the two processes must differ, each in its own namespace${ownNumber}`,
      "interprocess events: both sides need the same /dev/shm, as with --ipc=host (not tried)",
    ],
  });
}

function containerSigns(surroundings: Surroundings): string[] {
  const files = ["/.dockerenv", "/run/.containerenv"].filter((path) => surroundings.exists(path));
  const kind = surroundings.variable("container");
  const cgroup = CONTAINER_CGROUP.exec(surroundings.text("/proc/self/cgroup") ?? "")?.[0];
  return [
    ...files,
    ...(kind === undefined ? [] : [`container=${kind}`]),
    ...(surroundings.variable("KUBERNETES_SERVICE_HOST") === undefined ? [] : ["Kubernetes"]),
    ...(cgroup === undefined ? [] : [`cgroup of ${cgroup}`]),
  ];
}

type PidNamespace = "first" | "own" | "unknown";

const namespaceWords: Readonly<Record<PidNamespace, string>> = {
  first: "its PID namespace is the first of this kernel",
  own: "in a PID namespace of its own",
  unknown: "its PID namespace cannot be told",
};

function pidNamespace(surroundings: Surroundings): PidNamespace {
  const own = surroundings.link("/proc/self/ns/pid");
  if (own === FIRST_PID_NAMESPACE) return "first";
  // More than one number: /proc is that of an outer namespace.
  if (own !== undefined || namespacePids(surroundings).length > 1) return "own";
  return "unknown";
}

/** The number of this process in each namespace that /proc knows, the innermost last. */
function namespacePids(surroundings: Surroundings): string[] {
  const line = /^NSpid:\s*(.*)$/m.exec(surroundings.text("/proc/self/status") ?? "")?.[1];
  return line === undefined ? [] : line.split(/\s+/).filter((pid) => pid !== "");
}

function shmCheck(surroundings: Surroundings): Check {
  const uses = "of what is shared here only interprocess events need it; memory files do not live there";
  const space = surroundings.space("/dev/shm");
  const mount = "Before interprocess events are used: mount a tmpfs there, in a container by --ipc=host or --shm-size.";
  if (space === undefined) return fact("/dev/shm", "not there", { notes: [uses], toDo: mount });
  const { totalBytes, freeBytes, writable } = space;
  const detail = `${sizeWords(freeBytes)} of ${sizeWords(totalBytes)} free`;
  if (!writable) return fact("/dev/shm", `${detail}, not writable for this process`, { notes: [uses], toDo: mount });
  const small = totalBytes <= CONTAINER_SHM_BYTES ? ["no larger than what a container gets by default (64 MiB)"] : [];
  const full = freeBytes < SCARCE_BYTES ? { toDo: "See what fills it with ls -l /dev/shm, or raise --shm-size." } : {};
  return fact("/dev/shm", detail, { notes: [uses, ...small], ...full });
}

const ptraceScopes: Readonly<Record<string, string>> = {
  "0": "processes of one user may look into each other",
  "1": "a process may look into its descendants alone",
  "2": "only administrators may look into other processes",
  "3": "no process may look into another",
};

function ptraceCheck(surroundings: Surroundings): Check {
  const scope = surroundings.text("/proc/sys/kernel/yama/ptrace_scope");
  const unused = "of no matter here: pidfd_getfd is not used, descriptors travel through sockets";
  if (scope === undefined) return fact("ptrace scope", "cannot be read; there may be no Yama", { notes: [unused] });
  const detail = `${scope}, ${ptraceScopes[scope] ?? "unknown to this program"}`;
  const torch = "PyTorch's sharing of expandable segments needs pidfd_getfd, which this may refuse";
  return fact("ptrace scope", detail, { notes: scope === "0" ? [unused] : [unused, torch] });
}

/** Nothing where no filter is set: there is nothing to say. */
function seccompChecks(surroundings: Surroundings): Check[] {
  const mode = /^Seccomp:\s*(\d+)$/m.exec(surroundings.text("/proc/self/status") ?? "")?.[1];
  if (mode === undefined || mode === "0") return [];
  const notes = [
    "the calls that this project needs of the system are tried above; pidfd_getfd, which filters often refuse, is not one",
    "the CUDA driver listens on a socket of its own (@cuda-uvmfd-...) and does not start where a filter refuses that",
  ];
  return [fact("seccomp", mode === "2" ? "a filter of system calls is set" : `mode ${mode} is set`, { notes })];
}
