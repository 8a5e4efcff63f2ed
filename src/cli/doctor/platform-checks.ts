/** Platforms on which CUDA IPC is known to differ: WSL and Jetson. Recognised, not tried. */
import { type Check, fact } from "./check.js";
import type { Surroundings } from "./surroundings.js";

/** Empty on other machines. */
export function platformChecks(surroundings: Surroundings): Check[] {
  const tegra = tegraModel(surroundings);
  return [
    ...(isWsl(surroundings)
      ? [fact("WSL", "this Linux runs inside Windows", { notes: wslNotes })]
      : []),
    ...(tegra === undefined ? [] : [fact("Jetson", tegra, { notes: jetsonNotes })]),
  ];
}

const wslNotes = [
  "legacy memory handles: NVIDIA documents them since driver R510, " +
    "but Numba skips its tests of them as unreliable",
  "VMM and pools by descriptor: cuda.core skips its tests of them; " +
    "the checks of the GPU below were tried",
  "the host device is not affected",
];

const jetsonNotes = [
  "legacy memory handles: not supported; unknown on Thor",
  "interprocess events: since CUDA 11.5, with compute capability 7.x or later",
  "VMM by descriptor: reported to work on Orin; the checks of the GPU below were tried",
];

function isWsl(surroundings: Surroundings): boolean {
  return /microsoft|WSL/i.test(surroundings.text("/proc/version") ?? "");
}

/** The name of the machine if it is a Tegra. */
export function tegraModel(surroundings: Surroundings): string | undefined {
  const model = surroundings.text("/proc/device-tree/model");
  if (model !== undefined && /jetson|tegra|orin|xavier|thor/i.test(model)) return model;
  return surroundings.exists("/etc/nv_tegra_release") ? "/etc/nv_tegra_release exists" : undefined;
}
