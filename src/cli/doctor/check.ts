/** A check of the doctor, which prints one line for each. */
import { type ErrorCode, errorCodes } from "../../base/error-codes.js";
import { CudaIpcError, hasCode } from "../../base/errors.js";
import { withoutLoaderWords } from "../terminal/words.js";

/**
 * `missing`: needed, but the machine does not have it. `not supported`: optional, and the device
 * does not have it. `failed`: present, but it does not work. `fact`: read from the system, not
 * tried.
 */
export type CheckState = "ok" | "missing" | "not supported" | "failed" | "fact";

export interface Check {
  readonly name: string;
  readonly state: CheckState;
  /** The finding, or why it does not work. */
  readonly detail: string;
  /** Consequences for sharing. */
  readonly notes?: readonly string[];
  readonly toDo?: string;
}

const ABSENT: readonly ErrorCode[] = [
  "DRIVER_NOT_FOUND",
  "DEVICE_NOT_FOUND",
  "UNSUPPORTED",
  "PEER_ACCESS_UNSUPPORTED",
  "NVRTC_NOT_FOUND",
  "ENGINE_NOT_FOUND",
];

/** A fact that was read, not tried. It never counts as a failure. */
export function fact(
  name: string,
  detail: string,
  more: Pick<Check, "notes" | "toDo"> = {},
): Check {
  return { name, state: "fact", detail, ...more };
}

/** Runs a probe, which returns what it found or throws why it does not work. */
export async function check(name: string, probe: () => string | Promise<string>): Promise<Check> {
  try {
    return { name, state: "ok", detail: await probe() };
  } catch (error) {
    return failedCheck(name, error);
  }
}

/**
 * Like `check`, for what a device need not support.
 * @param lacking whether the driver says that the device does not support it; then it cannot fail
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
    // The usual remedy for UNSUPPORTED is to run the doctor.
    ...(remedy === errorCodes.UNSUPPORTED.remedy ? {} : { toDo: remedy }),
  };
}

export function allWork(checks: readonly Check[]): boolean {
  return checks.every(({ state }) => state !== "failed" && state !== "missing");
}
