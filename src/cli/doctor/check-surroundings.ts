/** Where this process runs, apart from any one device: container, limits, platform, what the environment says of GPUs. */
import type { Check } from "./check.js";
import { visibilityChecks } from "./gpu-sharing-checks.js";
import { isolationChecks } from "./isolation-checks.js";
import { limitChecks } from "./limit-checks.js";
import { platformChecks } from "./platform-checks.js";
import type { Surroundings } from "./surroundings.js";

/** Facts alone: they explain what fails elsewhere, and fail nothing themselves. */
export function checkSurroundings(surroundings: Surroundings): Check[] {
  return [
    ...platformChecks(surroundings),
    ...isolationChecks(surroundings),
    ...limitChecks(surroundings),
    ...visibilityChecks(surroundings),
  ];
}
