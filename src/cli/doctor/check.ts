/** One line of the doctor's findings. */
import type { ErrorCode } from "../../base/error-codes.js";
import { CudaIpcError, hasCode } from "../../base/errors.js";
import { withoutLoaderWords } from "../words.js";

/**
 * `missing`: the machine has it not, and what was asked for needs it. `not supported`: the device lacks it, and does without.
 * `failed`: it is there and does not work. `fact`: not tried.
 */
export type CheckState = "ok" | "missing" | "not supported" | "failed" | "fact";

export interface Check {
  readonly name: string;
  readonly state: CheckState;
  /** What was found, or why it does not work. */
  readonly detail: string;
  /** What it means here, a sentence each. */
  readonly notes?: readonly string[];
  readonly toDo?: string;
}

const ABSENT: readonly ErrorCode[] = [
  "DRIVER_NOT_FOUND",
  "DEVICE_NOT_FOUND",
  "UNSUPPORTED",
  "PEER_ACCESS_UNSUPPORTED",
  "NVRTC_NOT_FOUND",
];

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

/**
 * As `check`, for what a device may do without.
 * @param lacking whether its driver says that it has none: what does not work then is no failure
 */
export async function checkMechanism(
  name: string,
  probe: () => string | Promise<string>,
  lacking = false,
): Promise<Check> {
  const found = await check(name, probe);
  const absent = found.state === "missing" || (found.state === "failed" && lacking);
  return absent ? { ...found, state: "not supported" } : found;
}

export function failedCheck(name: string, error: unknown): Check {
  if (!(error instanceof CudaIpcError)) return { name, state: "failed", detail: String(error) };
  const { code, message, remedy } = error;
  const absent = ABSENT.some((it) => hasCode(error, it));
  return {
    name,
    state: absent ? "missing" : "failed",
    detail: `${code}: ${withoutLoaderWords(message)}`,
    // WHY: the remedy for this one is to ask the doctor.
    ...(code === "UNSUPPORTED" ? {} : { toDo: remedy }),
  };
}

export function allWork(checks: readonly Check[]): boolean {
  return checks.every(({ state }) => state !== "failed" && state !== "missing");
}
