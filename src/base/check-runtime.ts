/**
 * Refuses systems other than Linux, runtimes other than Node.js, and old versions of it, before a
 * library is loaded that would crash or hang there.
 */
import { CudaIpcError } from "./errors.js";

const OLDEST = [20, 19] as const;

const systems: Readonly<Record<string, string>> = { darwin: "macOS", win32: "Windows" };

/** @throws UNSUPPORTED */
export function checkRuntime(): void {
  const { platform } = process;
  if (platform !== "linux") {
    throw new CudaIpcError(
      "UNSUPPORTED",
      `cuda-ipc needs Linux; this is ${systems[platform] ?? platform}`,
      { remedy: "Run it on Linux. docs/when-to-use.md names tools for other systems." },
    );
  }
  const found = otherRuntime();
  if (found === undefined) return;
  throw new CudaIpcError(
    "UNSUPPORTED",
    `cuda-ipc needs Node.js ${OLDEST.join(".")} or newer; this is ${found}`,
    { remedy: "Install Node.js from https://nodejs.org, and run it with that." },
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
