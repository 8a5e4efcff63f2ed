/**
 * Runs Python for the tests of this folder, because the reference implementations define the files.
 * Without Python or a package the tests are skipped and say so. REQUIRE_PYTHON=1 turns that into a
 * failure.
 */
import { spawnSync } from "node:child_process";

const executable = process.env.PYTHON ?? "python3";

const imports = `
import json, sys, warnings
import numpy as np, ml_dtypes
import safetensors.numpy
from safetensors import SafetensorError, deserialize
warnings.simplefilter("ignore")
def named(name):
    return np.dtype(getattr(ml_dtypes, name, None) or name)
`;

/** For the `skip` of a test: why it cannot run, or false. */
export const skipWithoutPython: string | false = whyNot();

/**
 * Runs a script with the packages imported as np, ml_dtypes, safetensors, json and sys. Returns the
 * JSON that it prints.
 */
export function python(script: string, ...scriptArguments: string[]): unknown {
  const { status, stdout, stderr } = spawnSync(
    executable,
    ["-c", `${imports}\n${script}`, ...scriptArguments],
    {
      encoding: "utf8",
      maxBuffer: 64 * 1024 * 1024,
    },
  );
  if (status !== 0) throw new Error(`Python ended with ${status}: ${stderr}`);
  return stdout === "" ? undefined : JSON.parse(stdout);
}

function whyNot(): string | false {
  const probe = spawnSync(executable, ["-c", imports], { encoding: "utf8" });
  if (probe.status === 0) return false;
  const problem = probe.error?.message ?? probe.stderr.trim().split("\n").at(-1);
  if (process.env.REQUIRE_PYTHON === "1") throw new Error(`REQUIRE_PYTHON=1, but ${problem}`);
  return `needs python3 with numpy, safetensors and ml_dtypes: ${problem}`;
}
