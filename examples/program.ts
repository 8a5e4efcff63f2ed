/** What the examples have in common: their options, a line of text for each step, and errors in words. */
import { parseArgs } from "node:util";
import { CudaIpcError } from "cuda-ipc";

export interface Options {
  readonly elements: number;
  /** `host`, `cuda:N` or `auto`. */
  readonly device: string | undefined;
  readonly processes: number;
  /** Which part this process plays: the first plain argument, or "parent". */
  readonly role: string;
  /** The other plain arguments. */
  readonly args: readonly string[];
}

/** How long any wait of an example may take. */
export const LIMIT = { timeoutMs: 30_000 } as const;

const commands = { elements: { type: "string" }, device: { type: "string" }, processes: { type: "string" } } as const;

/** Runs an example; what it throws is told in one line, or to the process that started it. */
export async function run(
  defaults: { readonly elements?: number; readonly processes?: number },
  main: (options: Options) => Promise<void>,
): Promise<void> {
  // WHY: a child ends with the process that started it, whatever it is waiting for.
  process.on("disconnect", () => process.exit());
  try {
    const { values, positionals } = parseArgs({ options: commands, allowPositionals: true });
    const [role = "parent", ...args] = positionals;
    const elements = count("--elements", values.elements, defaults.elements ?? 1024);
    const processes = count("--processes", values.processes, defaults.processes ?? 2);
    await main({ elements, processes, device: values.device, role, args });
  } catch (error) {
    process.exitCode = 1;
    const code = error instanceof CudaIpcError ? error.code : "INTERNAL";
    const message = error instanceof Error ? error.message : String(error);
    if (process.send === undefined) console.error(`error[${code}]: ${message}`);
    else process.send({ kind: "failed", code, message });
  }
  if (process.connected) process.disconnect();
}

/** A step that was done, for people. */
export function say(text: string): void {
  console.log(`${String(process.pid).padStart(7)}  ${text}`);
}

/** @throws VERIFICATION_FAILED with the first element that is not as it should be */
export function verify(what: string, values: ArrayLike<number>, expected: (i: number) => number): void {
  for (let i = 0; i < values.length; i += 1) {
    if (Object.is(values[i], expected(i))) continue;
    throw new CudaIpcError("VERIFICATION_FAILED", `${what}: element ${i} is ${values[i]}, wanted ${expected(i)}`);
  }
}

function count(option: string, text: string | undefined, otherwise: number): number {
  if (text === undefined) return otherwise;
  const value = Number(text);
  if (Number.isSafeInteger(value) && value > 0) return value;
  throw new RangeError(`${option} must be a positive integer, not ${text}`);
}
