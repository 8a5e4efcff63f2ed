/**
 * Common code of the examples: options, the device, a line of text for each step, checks, errors.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
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

const interruption = new AbortController();

/** The limit of every wait of an example. Ctrl-C ends the wait, too. */
export const LIMIT = { timeoutMs: 30_000, signal: interruption.signal } as const;

/** How long an interrupted example may take to close what it has open. */
const GRACE_MS = 1_000;

type Role = (options: Options) => Promise<void>;

interface Defaults {
  readonly elements?: number;
  readonly processes?: number;
}

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
export class Skipped extends Error {}

/** Errors that say that this machine lacks a mechanism which the example shows. */
const lacking: readonly string[] = ["UNSUPPORTED", "PEER_ACCESS_UNSUPPORTED"];

/** Thrown for an option that the example cannot use. */
export class WrongOption extends Error {}

/** Runs an example. Prints its failure in one line, or reports it to the parent process. */
export async function run(defaults: Defaults, main: Role): Promise<void> {
  // A child ends with its parent, whatever it waits for.
  process.once("disconnect", () => interrupt(1));
  // The parent may have ended before this line.
  if (process.connected === false) process.exit();
  for (const [name, code] of [
    ["SIGHUP", 129],
    ["SIGINT", 130],
    ["SIGTERM", 143],
  ] as const)
    process.once(name, () => interrupt(code));
  try {
    const { values, positionals } = parseArgs({ options: commands, allowPositionals: true });
    const [role = "parent", ...args] = positionals;
    const elements = count("--elements", values.elements, defaults.elements ?? 1024);
    const processes = count("--processes", values.processes, defaults.processes ?? 2);
    await main({ elements, processes, device: values.device, role, args });
  } catch (error) {
    // After an interruption, errors are its consequences.
    if (!interruption.signal.aborted) await tell(error);
    interruption.abort();
    // In this turn, waits that were aborted close their files.
    await setImmediate();
    // WHY at once: children and everything else that is open end with this process.
    process.exit();
  }
  if (interruption.signal.aborted) process.exit();
  process.removeAllListeners("disconnect").once("disconnect", () => process.exit());
  if (process.connected) process.disconnect();
}

/** Runs the role that the first plain argument names: "parent" if there is none. */
export function runRoles(defaults: Defaults, roles: Readonly<Record<string, Role>>): Promise<void> {
  return run(defaults, async (options) => {
    const role = Object.hasOwn(roles, options.role) ? roles[options.role] : undefined;
    if (role !== undefined) return role(options);
    const names = Object.keys(roles).filter((name) => name !== "parent");
    throw new WrongOption(`there is no role "${options.role}"; the roles are ${names.join(", ")}`);
  });
}

/** Aborts all waits, so that everything is closed on the way out, and ends the process soon. */
function interrupt(code: number): void {
  if (interruption.signal.aborted) return;
  process.exitCode = code;
  interruption.abort();
  setTimeout(() => process.exit(), GRACE_MS).unref();
}

async function tell(error: unknown): Promise<void> {
  const message = error instanceof Error ? error.message : String(error);
  const code = codeOf(error);
  const kind = isSkip(error) ? "skipped" : "failed";
  // A parent that is told "skipped" ends without an error itself.
  if (kind === "failed" || isChild) process.exitCode = code === "USAGE" ? 2 : 1;
  if (isChild) {
    if (process.connected)
      await new Promise<unknown>((resolve) => process.send?.({ kind, code, message }, resolve));
  } else if (kind === "skipped") say(`Skipped: ${message}`);
  else console.error(`error[${code}]: ${message}`);
}

/** Whether the error says that this machine lacks what the example needs. */
export function isSkip(error: unknown): boolean {
  return error instanceof Skipped || lacking.includes(codeOf(error));
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
    throw skippedFor(error);
  }
}

/** Returns the error to throw: `Skipped` if this machine lacks what the example needs. */
export function skippedFor(error: unknown): unknown {
  const lacks = error instanceof CudaIpcError && MISSING.has(error.code);
  return lacks ? new Skipped(error.message) : error;
}

const MISSING: ReadonlySet<ErrorCode> = new Set(["UNSUPPORTED", "NVRTC_NOT_FOUND"]);

/** Creates a folder for sockets and files, which is removed when this process ends. */
export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "cuda-ipc-example-"));
  removeAtEnd(folder);
  return folder;
}

/** Removes the file or folder when this process ends, except by SIGKILL. */
export function removeAtEnd(path: string): void {
  process.once("exit", () => rmSync(path, { recursive: true, force: true }));
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
