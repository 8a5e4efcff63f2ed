/** Arguments and options that several commands take, and the checks of their values. */
import { stat } from "node:fs/promises";
import { InvalidArgumentError, Option } from "commander";
import { type DType, dtypeNames, isDType } from "../array/dtype.js";
import { fileSystemError } from "../files/file-errors.js";
import { fileFormats } from "../files/file-format.js";
import { UsageError } from "./terminal/error-report.js";

/** How the commands about the hub name its socket. */
export function socketOption(): Option {
  return new Option(
    "--socket <path>",
    "the hub's socket (default: CUDA_IPC_SOCKET, else one in your runtime folder)",
  );
}

/** Where a command creates arrays. */
export function deviceOption(
  description = "auto, host, or cuda:N or N for a GPU (default: CUDA_IPC_DEVICE, else auto)",
): Option {
  return new Option("-d, --device <device>", description);
}

export function shareOption(verb: "open" | "read"): Option {
  return new Option(
    "--share <who>",
    `let other users ${verb} it: members of your group, or all users of the hub`,
  ).choices(["group", "all"]);
}

export function formatOption(description: string): Option {
  return new Option("--format <format>", description).choices(fileFormats);
}

export function parseCount(text: string): number {
  return parseInteger(text, 0);
}

export function parsePositive(text: string, max = Number.MAX_SAFE_INTEGER): number {
  return parseInteger(text, 1, max);
}

/** Its error names the same range whatever was given. */
export function parseInteger(text: string, min: number, max = Number.MAX_SAFE_INTEGER): number {
  const count = Number(text);
  if (/^\d+$/.test(text) && count >= min && count <= max) return count;
  const range = max === Number.MAX_SAFE_INTEGER ? `${min} or more` : `from ${min} to ${max}`;
  throw new InvalidArgumentError(`Give an integer, ${range}.`);
}

const UNIT_MS: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1000,
  min: 60_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};

/** Parses `10s`, `500ms`, `2min`, `1h` or `7d` to milliseconds. */
export function parseTime(text: string): number {
  const [, number = "", unit = ""] = /^(\d{1,9}(?:\.\d{1,3})?) ?(ms|s|min|m|h|d)$/.exec(text) ?? [];
  const unitMs = UNIT_MS[unit];
  if (unitMs === undefined)
    throw new InvalidArgumentError("Give a time with its unit, such as 10s, 500ms, 2min or 1h.");
  return Number(number) * unitMs;
}

/** Parses `1080,1920,3`. The empty string is the shape of a single value. */
export function parseShape(text: string): number[] {
  if (text.trim() === "") return [];
  return text.split(",").map((size) => parseCount(size.trim()));
}

export function parseDTypeName(text: string): DType {
  if (isDType(text)) return text;
  throw new InvalidArgumentError(`The known dtypes are ${dtypeNames.join(", ")}.`);
}

/**
 * Refuses a path that is neither a file nor a folder.
 * @throws SystemError `INVALID_FILE`, `PERMISSION_DENIED`; UsageError for "-", pipes and devices
 */
export async function checkInputPath(path: string): Promise<void> {
  refuseDash(path);
  try {
    const facts = await stat(path);
    if (facts.isFile() || facts.isDirectory()) return;
  } catch (error) {
    throw fileSystemError(`read ${JSON.stringify(path)}`, error);
  }
  throw new UsageError(
    `${path} is a pipe or device, so its size is unknown: name an ordinary file`,
  );
}

export function refuseDash(path: string): void {
  if (path === "-")
    throw new UsageError('"-" (standard input or output) is not supported here: name a file');
}
