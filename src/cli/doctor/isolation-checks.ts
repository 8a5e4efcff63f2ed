/** What isolates this process from others, and what that means for sharing. Read, not tried. */
import { sizeWords } from "../terminal/words.js";
import { type Check, fact } from "./check.js";
import type { Surroundings } from "./surroundings.js";

/**
 * The inode of the first PID namespace of a Linux kernel: PROC_PID_INIT_INO, the same on every
 * machine.
 */
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
  const found = signs.length === 0 ? "no sign of one" : `this looks like one (${signs.join(", ")})`;
  const detail = `${found}; ${namespaceWords[namespace]}`;
  if (signs.length === 0 && namespace !== "own") return fact("container", detail);
  const pid = namespacePids(surroundings).at(-1);
  const ownNumber = pid === undefined ? "" : `; this process has PID ${pid}`;
  return fact("container", detail, {
    notes: [
      "memory files, VMM and pools travel through the hub's socket: " +
        "mount its folder into both containers, and use one uid",
      "legacy memory handles: the two processes must have different PIDs, " +
        `each in its own namespace${ownNumber}`,
      "interprocess events: both sides need the same /dev/shm, " +
        "for example by --ipc=host (not tried)",
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
  first: "in the first PID namespace of this kernel",
  own: "in a PID namespace of its own",
  unknown: "in an unknown PID namespace",
};

function pidNamespace(surroundings: Surroundings): PidNamespace {
  const own = surroundings.link("/proc/self/ns/pid");
  if (own === FIRST_PID_NAMESPACE) return "first";
  // More than one number means that /proc belongs to an outer namespace.
  if (own !== undefined || namespacePids(surroundings).length > 1) return "own";
  return "unknown";
}

/** The PID of this process in each namespace that /proc knows, the innermost last. */
function namespacePids(surroundings: Surroundings): string[] {
  const line = /^NSpid:\s*(.*)$/m.exec(surroundings.text("/proc/self/status") ?? "")?.[1];
  return line === undefined ? [] : line.split(/\s+/).filter((pid) => pid !== "");
}

function shmCheck(surroundings: Surroundings): Check {
  const uses = "only interprocess events need it; memory files are not stored there";
  const space = surroundings.space("/dev/shm");
  const mount =
    "To use interprocess events, mount a tmpfs there. In a container, " +
    "use --ipc=host or --shm-size.";
  if (space === undefined)
    return fact("/dev/shm", "does not exist", { notes: [uses], toDo: mount });
  const { totalBytes, freeBytes, writable } = space;
  const detail = `${sizeWords(freeBytes)} of ${sizeWords(totalBytes)} free`;
  if (!writable)
    return fact("/dev/shm", `${detail}, not writable for this process`, {
      notes: [uses],
      toDo: mount,
    });
  const small =
    totalBytes <= CONTAINER_SHM_BYTES
      ? ["it is not larger than the default of a container (64 MiB)"]
      : [];
  const full =
    freeBytes < SCARCE_BYTES
      ? { toDo: "Run ls -l /dev/shm to see what fills it, or raise --shm-size." }
      : {};
  return fact("/dev/shm", detail, { notes: [uses, ...small], ...full });
}

const ptraceScopes: Readonly<Record<string, string>> = {
  "0": "processes of one user may trace each other",
  "1": "a process may trace only its descendants",
  "2": "only administrators may trace processes",
  "3": "no process may trace another",
};

function ptraceCheck(surroundings: Surroundings): Check {
  const scope = surroundings.text("/proc/sys/kernel/yama/ptrace_scope");
  const unused =
    "this does not matter here: descriptors travel through sockets, not by pidfd_getfd";
  if (scope === undefined)
    return fact("ptrace scope", "unknown; the kernel may lack Yama", { notes: [unused] });
  const detail = `${scope}, ${ptraceScopes[scope] ?? "unknown to this program"}`;
  const torch = "PyTorch shares expandable segments by pidfd_getfd, which this setting may refuse";
  return fact("ptrace scope", detail, { notes: scope === "0" ? [unused] : [unused, torch] });
}

/** Empty if no filter is set. */
function seccompChecks(surroundings: Surroundings): Check[] {
  const mode = /^Seccomp:\s*(\d+)$/m.exec(surroundings.text("/proc/self/status") ?? "")?.[1];
  if (mode === undefined || mode === "0") return [];
  const notes = [
    "the system calls that cuda-ipc needs are tried above; it does not need pidfd_getfd, " +
      "which filters often refuse",
    "the CUDA driver listens on its own socket (@cuda-uvmfd-...), " +
      "and does not start if a filter refuses that",
  ];
  return [
    fact("seccomp", mode === "2" ? "a filter of system calls is set" : `mode ${mode} is set`, {
      notes,
    }),
  ];
}
