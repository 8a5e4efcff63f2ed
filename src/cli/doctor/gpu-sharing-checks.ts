/**
 * How processes share a GPU: MPS, MIG, compute mode. Read from attributes and variables, not tried.
 */
import { uuidOf } from "../../base/device-reference.js";
import type { Device } from "../../gpu/device.js";
import { type Check, fact } from "./check.js";
import { tegraModel } from "./platform-checks.js";
import type { Surroundings } from "./surroundings.js";

type GpuFacts = Pick<Device["facts"], "name" | "reference" | "attributes">;

const DEFAULT_MPS_FOLDER = "/tmp/nvidia-mps";
const migRules =
  "CUDA IPC works between compute instances of one GPU instance, " +
  "but not between GPU instances (not tried)";

const MEASURED = "one H200, driver 580.159, 2026-11-21";
const MPS_GIVES =
  "a message between small kernels of two processes takes 6.4 us with MPS, " +
  "and 45 us without, because they take turns on the GPU";
const MPS_TAKES =
  "under MPS, a process that is killed or faults while its kernel runs ends the contexts " +
  "of all other clients " +
  "(DEVICE_LOST); memory and names stay, so run workers under a supervisor that restarts them";

/** The variables that select GPUs, if they are set. */
export function visibilityChecks(surroundings: Surroundings): Check[] {
  return ["CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"].flatMap((variable) => {
    const value = surroundings.variable(variable);
    if (value === undefined) return [];
    const mig = migNames(value).length > 0 ? { notes: [`names MIG instances: ${migRules}`] } : {};
    return [fact("visible GPUs", `${variable}=${value}`, mig)];
  });
}

/** How this process shares one GPU with others. */
export function gpuSharingChecks(gpu: GpuFacts, surroundings: Surroundings): Check[] {
  return [
    mpsCheck(gpu, surroundings),
    ...migChecks(gpu, surroundings),
    ...computeModeChecks(gpu),
    ...integratedChecks(gpu, surroundings),
  ];
}

function mpsCheck({ attributes }: GpuFacts, surroundings: Surroundings): Check {
  const enabled = attributes.MPS_ENABLED;
  if (enabled === 1) {
    const found = "in use: processes compute side by side (MPS_ENABLED)";
    const detail = `${found}; ${pipeFolderWords(surroundings)}`;
    return fact("MPS", detail, { notes: [`${MPS_GIVES} (${MEASURED})`, MPS_TAKES] });
  }
  const gain =
    `${MPS_GIVES} (${MEASURED}); start it before your processes with ` +
    "`nvidia-cuda-mps-control -d`";
  const detail =
    enabled === undefined ? "not known to this driver (MPS_ENABLED)" : "not in use (MPS_ENABLED)";
  return fact("MPS", `${detail}; ${pipeFolderWords(surroundings)}`, { notes: [gain, MPS_TAKES] });
}

function pipeFolderWords(surroundings: Surroundings): string {
  const named = surroundings.variable("CUDA_MPS_PIPE_DIRECTORY");
  const there = surroundings.exists(named ?? DEFAULT_MPS_FOLDER);
  if (named !== undefined)
    return `CUDA_MPS_PIPE_DIRECTORY=${named}, which ${there ? "exists" : "does not exist"}`;
  return there
    ? `${DEFAULT_MPS_FOLDER} exists, but its server may have ended`
    : `${DEFAULT_MPS_FOLDER} does not exist`;
}

/** The `MIG-...` names in a list of visible devices. */
function migNames(list: string): string[] {
  return list
    .split(",")
    .map((name) => name.trim())
    .filter((name) => name.startsWith("MIG-"));
}

function migChecks({ name, reference }: GpuFacts, surroundings: Surroundings): Check[] {
  const uuid = uuidOf(reference);
  const digits = uuid.replace(/^\w+?-/, "");
  const visible = migNames(surroundings.variable("CUDA_VISIBLE_DEVICES") ?? "");
  // WHY three signs: the driver may give the UUID without its prefix, but the model's name says
  // MIG.
  const isMig =
    uuid.startsWith("MIG-") || visible.includes(`MIG-${digits}`) || /\bMIG \d/.test(name);
  return isMig ? [fact("MIG", "this device is a MIG instance", { notes: [migRules] })] : [];
}

const modes: Readonly<Record<number, readonly [detail: string, note: string]>> = {
  2: ["prohibited: no process may use it", "nothing can be created or opened on this GPU"],
  3: [
    "exclusive process: one process at a time",
    "a second process is refused (CUDA_ERROR_DEVICE_UNAVAILABLE), " +
      "so nothing can be shared on this GPU, except between clients of one MPS server",
  ],
};

/** Empty in the default mode, in which all processes may use the GPU. */
function computeModeChecks({ attributes }: GpuFacts): Check[] {
  const mode = attributes.COMPUTE_MODE;
  if (mode === undefined || mode === 0) return [];
  const [detail, note] = modes[mode] ?? [
    `${mode}, unknown to this program`,
    "nvidia-smi -q -d COMPUTE shows it",
  ];
  const toDo = "Ask an administrator to run: nvidia-smi -c DEFAULT";
  return [fact("compute mode", `${detail} (COMPUTE_MODE)`, { notes: [note], toDo })];
}

function integratedChecks({ attributes }: GpuFacts, surroundings: Surroundings): Check[] {
  if (attributes.INTEGRATED !== 1) return [];
  const tegra =
    tegraModel(surroundings) === undefined ? "this does not look like a Tegra" : "see Jetson above";
  const notes = [`on Tegra, legacy memory handles are not supported; ${tegra}`];
  return [fact("integrated", "the GPU shares the memory of the CPU (INTEGRATED)", { notes })];
}
