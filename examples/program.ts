/**
 * Common code of the examples: options, the device, a line of text for each step, checks, errors.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { CudaIpcError, Device, type ErrorCode } from "cuda-ipc";

export interface Options {
  readonly elements: number;
  /** `host`, `cuda:N` or `auto`. */
  readonly device: string | undefined;
  readonly processes: number;
  /** The part of this process: the first plain argument, or "parent". */
  readonly role: string;
  /** The other plain arguments. */
  readonly args: readonly string[];
}

/** The timeout of every wait of an example. */
export const LIMIT = { timeoutMs: 30_000 } as const;

const commands = {
  elements: { type: "string" },
  device: { type: "string" },
  processes: { type: "string" },
} as const;

/** Asked at the start, because a child is still a child after its parent has disconnected. */
const isChild = process.send !== undefined;

/**
 * Thrown by an example that this device cannot run. It prints the reason and ends without an error.
 */
class Skipped extends Error {}

/** Errors that say that this machine lacks a mechanism which the example shows. */
const lacking: readonly string[] = ["UNSUPPORTED", "PEER_ACCESS_UNSUPPORTED"];

/** Thrown for an option that the example cannot use. */
export class WrongOption extends Error {}

/** Runs an example. Prints its failure in one line, or reports it to the parent process. */
export async function run(
  defaults: { readonly elements?: number; readonly processes?: number },
  main: (options: Options) => Promise<void>,
): Promise<void> {
  // A child ends with its parent, whatever it waits for.
  process.on("disconnect", () => process.exit());
  // The parent may have ended before this line.
  if (process.connected === false) process.exit();
  // WHY: by default a signal ends the process without the `exit` handlers that remove its folders.
  process.once("SIGINT", () => process.exit(130)).once("SIGTERM", () => process.exit(143));
  try {
    const { values, positionals } = parseArgs({ options: commands, allowPositionals: true });
    const [role = "parent", ...args] = positionals;
    const elements = count("--elements", values.elements, defaults.elements ?? 1024);
    const processes = count("--processes", values.processes, defaults.processes ?? 2);
    await main({ elements, processes, device: values.device, role, args });
  } catch (error) {
    await tell(error);
    // WHY at once: children and everything else that is open end with this process.
    process.exit();
  }
  if (process.connected) process.disconnect();
}

async function tell(error: unknown): Promise<void> {
  const message = error instanceof Error ? error.message : String(error);
  const code = codeOf(error);
  const kind = error instanceof Skipped || lacking.includes(code) ? "skipped" : "failed";
  // A parent that is told "skipped" ends without an error itself.
  if (kind === "failed" || isChild) process.exitCode = code === "USAGE" ? 2 : 1;
  if (isChild) {
    if (process.connected)
      await new Promise<unknown>((resolve) => process.send?.({ kind, code, message }, resolve));
  } else if (kind === "skipped") say(`Skipped: ${message}`);
  else console.error(`error[${code}]: ${message}`);
}

function codeOf(error: unknown): string {
  if (error instanceof CudaIpcError) return error.code;
  if (error instanceof WrongOption) return "USAGE";
  // An error of parseArgs.
  const code = error instanceof Error && "code" in error ? String(error.code) : "";
  return code.startsWith("ERR_PARSE_ARGS") ? "USAGE" : "INTERNAL";
}

/** Opens the named device. Without a name and with several GPUs, each rank takes the next GPU. */
export function openDevice({ device: name }: Options, rank = 0): Device {
  const first = Device.open(name);
  const named = (name ?? process.env.CUDA_IPC_DEVICE ?? "auto") !== "auto";
  const ordinal = named || first.cpuVisible ? 0 : rank % first.deviceCount;
  if (ordinal === 0) return first;
  first.close();
  return Device.open(`cuda:${ordinal}`);
}

/** Returns what `make` makes. Ends the example if this device does not support it. */
export function orSkip<T>(make: () => T): T {
  try {
    return make();
  } catch (error) {
    if (error instanceof CudaIpcError && error.code === "UNSUPPORTED")
      throw new Skipped(error.message);
    throw error;
  }
}

/** Creates a folder for sockets and files, which is removed when this process ends. */
export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "cuda-ipc-example-"));
  process.on("exit", () => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** Prints a step that was done. */
export function say(text: string): void {
  console.log(`${String(process.pid).padStart(7)}  ${text}`);
}

/** @throws VERIFICATION_FAILED, which names the first wrong element */
export function verify<T extends number | bigint>(
  what: string,
  values: ArrayLike<T>,
  expected: (i: number) => T,
): void {
  for (let i = 0; i < values.length; i += 1) {
    if (Object.is(values[i], expected(i))) continue;
    throw new CudaIpcError(
      "VERIFICATION_FAILED",
      `${what}: element ${i} is ${values[i]}, wanted ${expected(i)}`,
    );
  }
}

/** Prints the error of an attempt, which must fail with this code. */
export async function refused(
  what: string,
  code: ErrorCode,
  attempt: () => unknown,
): Promise<void> {
  try {
    await attempt();
  } catch (error) {
    if (!(error instanceof CudaIpcError) || error.code !== code) throw error;
    return say(`${what} is refused: ${code}: ${error.message}`);
  }
  throw new CudaIpcError("VERIFICATION_FAILED", `${what} was done, wanted ${code}`);
}

function count(option: string, text: string | undefined, otherwise: number): number {
  if (text === undefined) return otherwise;
  const value = Number(text);
  if (Number.isSafeInteger(value) && value > 0) return value;
  throw new WrongOption(`${option} must be a positive integer, not ${text}`);
}
