/** Whether Python has a package that a test on a GPU needs. */
import { spawnSync } from "node:child_process";
import { whyNoGpu } from "../conformance/gpu-presence.js";

export const python = process.env.PYTHON ?? "python3";

/** Why a test with this package is skipped, or false. With REQUIRE_PYTHON=1 it is not: it fails. */
export function whyNoPackage(name: string): string | false {
  const absence = whyNoGpu();
  if (absence !== undefined) return absence;
  if (process.env.REQUIRE_PYTHON === "1") return false;
  const probe = spawnSync(python, ["-c", `import ${name}`], { encoding: "utf8" });
  if (probe.status === 0) return false;
  const problem = probe.error?.message ?? probe.stderr.trim().split("\n").at(-1);
  return `no ${name} in ${python}: ${problem}`;
}
