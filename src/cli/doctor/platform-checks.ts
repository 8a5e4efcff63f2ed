/** Systems on which CUDA IPC is known to be different: WSL and Jetson. Recognised, not tried. */
import { type Check, fact } from "./check.js";
import type { Surroundings } from "./surroundings.js";

/** Nothing on an ordinary machine. */
export function platformChecks(surroundings: Surroundings): Check[] {
  const tegra = tegraModel(surroundings);
  return [
    ...(isWsl(surroundings) ? [fact("WSL", "this Linux runs within Windows", { notes: wslNotes })] : []),
    ...(tegra === undefined ? [] : [fact("Jetson", tegra, { notes: jetsonNotes })]),
  ];
}

const wslNotes = [
  "legacy memory handles: NVIDIA documents them from driver R510 on; the tests of Numba leave them out as unreliable",
  "VMM and pools by descriptor: the tests of cuda.core leave them out; what the GPU below shows was tried",
  "the host device does not depend on any of this",
];

const jetsonNotes = [
  "legacy memory handles: not supported; on Thor it is not known",
  "interprocess events: from CUDA 11.5 on, with compute capability 7.x or later",
  "VMM by descriptor: reported to work on Orin; what the GPU below shows was tried",
];

function isWsl(surroundings: Surroundings): boolean {
  return /microsoft|WSL/i.test(surroundings.text("/proc/version") ?? "");
}

/** What the machine calls itself, where that is a Tegra. */
export function tegraModel(surroundings: Surroundings): string | undefined {
  const model = surroundings.text("/proc/device-tree/model");
  if (model !== undefined && /jetson|tegra|orin|xavier|thor/i.test(model)) return model;
  return surroundings.exists("/etc/nv_tegra_release") ? "there is an /etc/nv_tegra_release" : undefined;
}
