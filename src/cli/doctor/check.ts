/** One line of the doctor's findings. */
import { CudaIpcError, hasCode } from "../../base/errors.js";
import { withoutLoaderWords } from "../words.js";

/** `missing`: the machine has it not, which may be as it should be. `failed`: it is there and does not work. `fact`: not tried. */
export type CheckState = "ok" | "missing" | "failed" | "fact";

export interface Check {
  readonly name: string;
  readonly state: CheckState;
  /** What was found, or why it does not work. */
  readonly detail: string;
  /** What it means here, a sentence each. */
  readonly notes?: readonly string[];
  readonly toDo?: string;
}

/** Something read and not tried; it never counts as a failure. */
export function fact(name: string, detail: string, more: Pick<Check, "notes" | "toDo"> = {}): Check {
  return { name, state: "fact", detail, ...more };
}

/** Runs a probe that returns what it found and throws why it does not work. */
export async function check(name: string, probe: () => string | Promise<string>): Promise<Check> {
  try {
    return { name, state: "ok", detail: await probe() };
  } catch (error) {
    return failedCheck(name, error);
  }
}

export function failedCheck(name: string, error: unknown): Check {
  if (!(error instanceof CudaIpcError)) return { name, state: "failed", detail: String(error) };
  const { code, message, remedy } = error;
  const absent =
    hasCode(error, "DRIVER_NOT_FOUND") || hasCode(error, "DEVICE_NOT_FOUND") || hasCode(error, "UNSUPPORTED");
  return {
    name,
    state: absent ? "missing" : "failed",
    detail: `${code}: ${withoutLoaderWords(message)}`,
    toDo: remedy,
  };
}

export function allWork(checks: readonly Check[]): boolean {
  return checks.every(({ state }) => state === "ok" || state === "fact");
}
