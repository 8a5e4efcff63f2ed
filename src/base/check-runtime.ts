/**
 * Refuses runtimes other than Node.js, and old versions of it, before a library is loaded that
 * would crash or hang there.
 */
import { CudaIpcError } from "./errors.js";

const OLDEST = [20, 19] as const;

/** @throws UNSUPPORTED */
export function checkRuntime(): void {
  const found = otherRuntime();
  if (found === undefined) return;
  throw new CudaIpcError(
    "UNSUPPORTED",
    `cuda-ipc needs Node.js ${OLDEST.join(".")} or newer; this is ${found}`,
  );
}

function otherRuntime(): string | undefined {
  const { bun, deno, node } = process.versions;
  // Bun and Deno also report the Node version that they imitate, so check them first.
  if (bun !== undefined) return `Bun ${bun}`;
  if (deno !== undefined) return `Deno ${deno}`;
  const [major = 0, minor = 0] = node.split(".").map(Number);
  const isNewEnough = major > OLDEST[0] || (major === OLDEST[0] && minor >= OLDEST[1]);
  return isNewEnough ? undefined : `Node.js ${node}`;
}
