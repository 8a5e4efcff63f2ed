/** How GPUs are divided among processes: MPS, MIG, compute mode, memory of their own. From attributes and environment, not tried. */
import { uuidOf } from "../../base/device-reference.js";
import type { Device } from "../../gpu/device.js";
import { type Check, fact } from "./check.js";
import { tegraModel } from "./platform-checks.js";
import type { Surroundings } from "./surroundings.js";

type GpuFacts = Pick<Device["facts"], "name" | "reference" | "attributes">;

const DEFAULT_MPS_FOLDER = "/tmp/nvidia-mps";
const migRules = "CUDA IPC works between compute instances of one GPU instance, not between GPU instances (not tried)";

const MEASURED = "one H200, driver 580.159, 2026-11-21";
const MPS_GIVES =
  "small kernels in two processes take turns on the GPU without MPS, 45 us a message, and 6.4 us with it";
const MPS_TAKES =
  "under MPS a process that is killed or faults while its kernel runs ends the contexts of all other clients " +
  "(DEVICE_LOST); memory and names stay: run workers under a supervisor that starts them again";

/** What the environment says of GPUs; nothing where it says nothing. */
export function visibilityChecks(surroundings: Surroundings): Check[] {
  return ["CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"].flatMap((variable) => {
    const value = surroundings.variable(variable);
    if (value === undefined) return [];
    const mig = migNames(value).length > 0 ? { notes: [`it names MIG instances: ${migRules}`] } : {};
    return [fact("visible GPUs", `${variable}=${value}`, mig)];
  });
}

/** What holds of one GPU and this process. */
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
    const detail = `in use: processes compute side by side (MPS_ENABLED); ${pipeFolderWords(surroundings)}`;
    return fact("MPS", detail, { notes: [`${MPS_GIVES} (${MEASURED})`, MPS_TAKES] });
  }
  const gain = `${MPS_GIVES} (${MEASURED}); \`nvidia-cuda-mps-control -d\` starts it, before the processes`;
  const detail = enabled === undefined ? "not known to this driver (MPS_ENABLED)" : "not in use (MPS_ENABLED)";
  return fact("MPS", `${detail}; ${pipeFolderWords(surroundings)}`, { notes: [gain, MPS_TAKES] });
}

function pipeFolderWords(surroundings: Surroundings): string {
  const named = surroundings.variable("CUDA_MPS_PIPE_DIRECTORY");
  const there = surroundings.exists(named ?? DEFAULT_MPS_FOLDER);
  if (named !== undefined) return `CUDA_MPS_PIPE_DIRECTORY=${named}, which is ${there ? "there" : "not there"}`;
  return there ? `there is a ${DEFAULT_MPS_FOLDER}, perhaps of a server that ended` : `no ${DEFAULT_MPS_FOLDER} here`;
}

/** `MIG-...` in a list of visible devices. */
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
  // WHY three signs: the driver gives a UUID without its prefix, and MIG instances show in the name of the model.
  const isMig = uuid.startsWith("MIG-") || visible.includes(`MIG-${digits}`) || /\bMIG \d/.test(name);
  return isMig ? [fact("MIG", "this device is a MIG instance", { notes: [migRules] })] : [];
}

const modes: Readonly<Record<number, readonly [detail: string, note: string]>> = {
  2: ["prohibited: no process can compute on it", "nothing can be made or opened on this GPU"],
  3: [
    "exclusive process: one process at a time",
    "a second process, and so every sharing on this GPU, is refused (CUDA_ERROR_DEVICE_UNAVAILABLE), but for clients of one MPS server",
  ],
};

/** Nothing in the default mode, in which all processes may use the GPU. */
function computeModeChecks({ attributes }: GpuFacts): Check[] {
  const mode = attributes.COMPUTE_MODE;
  if (mode === undefined || mode === 0) return [];
  const [detail, note] = modes[mode] ?? [`${mode}, unknown to this program`, "see it with nvidia-smi -q -d COMPUTE"];
  const toDo = "An administrator sets the default with: nvidia-smi -c DEFAULT";
  return [fact("compute mode", `${detail} (COMPUTE_MODE)`, { notes: [note], toDo })];
}

function integratedChecks({ attributes }: GpuFacts, surroundings: Surroundings): Check[] {
  if (attributes.INTEGRATED !== 1) return [];
  const tegra = tegraModel(surroundings) === undefined ? "this is no Tegra as far as can be told" : "see Jetson above";
  const notes = [`on Tegra legacy memory handles are not supported; ${tegra}`];
  return [fact("integrated", "the GPU shares the memory of the CPU (INTEGRATED)", { notes })];
}
