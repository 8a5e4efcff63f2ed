/** The options of `channel send`, and which of them exclude each other. */
import { type Command, InvalidArgumentError, Option } from "commander";
import type { DType } from "../../array/dtype.js";
import { arrayByteLength } from "../../array/layout.js";
import { parseBytes } from "../../base/bytes.js";
import { limits } from "../../base/limits.js";
import type { JsonValue } from "../../channel/message-meta.js";
import { type WhenFull, whenFullPolicies } from "../../ring/channel-layout.js";
import {
  deviceOption,
  parseDTypeName,
  parseInteger,
  parsePositive,
  parseShape,
  shareOption,
} from "../arguments.js";
import { UsageError } from "../terminal/error-report.js";
import type { Framing } from "./stream-messages.js";

export interface SendOptions {
  readonly device?: string;
  readonly dtype?: DType;
  readonly shape?: number[];
  readonly byteLength?: number;
  readonly frames?: number;
  readonly lines?: boolean;
  readonly npy?: boolean;
  readonly slots?: number;
  readonly readersMax?: number;
  readonly whenFull?: WhenFull;
  readonly share?: "group" | "all";
  /** Undefined if the messages have no meta. */
  readonly meta?: { readonly value: JsonValue };
  readonly repeat?: number;
  readonly rate?: number;
  readonly waitReaders?: number;
  readonly keep?: boolean;
  readonly resume?: boolean;
}

const MORE = `
By default, sending begins when there is a reader.
A reader gets the messages that are sent after it has joined.

Examples:
  $ seq 1000 | cuda-ipc channel send numbers --lines
  $ cuda-ipc channel send frames frame-*.npy --rate 30 --repeat forever
  $ ffmpeg -i in.mp4 -f rawvideo -pix_fmt rgb24 - \\
      | cuda-ipc channel send video --shape 1080,1920,3 --slots 4`;

export function addSendOptions(command: Command): Command {
  return command
    .option("--lines", "cut the input into lines, without their line breaks")
    .option("--frames <size>", "cut the input into messages of this size: 4096, 6MiB", parseSize)
    .option("--npy", "read the input as .npy arrays, one after the other")
    .option(
      "--dtype <dtype>",
      "element type of the messages (default: that of the first .npy, else uint8)",
      parseDTypeName,
    )
    .option(
      "--shape <shape>",
      "shape of the largest message, such as 1080,1920,3 (default: that of the first)",
      parseShape,
    )
    .option(
      "--byte-length <size>",
      "size of the largest message, instead of --dtype and --shape (default for lines: 64KiB)",
      parseSize,
    )
    .option("--slots <count>", "how many messages the channel holds (default: 8)", (text) =>
      parsePositive(text, limits.channelSlotsMax),
    )
    .option(
      "--readers-max <count>",
      "how many readers it can have at a time (default: 8)",
      (text) => parsePositive(text, limits.channelReadersMax),
    )
    .addOption(
      new Option("--when-full <policy>", "what to do if no slot is free (default: wait)").choices([
        ...whenFullPolicies,
      ]),
    )
    .addOption(shareOption("read"))
    .addOption(deviceOption())
    .option("--meta <json>", "a JSON value to send with each message", parseMeta)
    .option("--repeat <count>", 'send the files this many times, or "forever"', parseRepeat)
    .option("--rate <rate>", "send at most this many messages a second", parseRate)
    .option(
      "--wait-readers <count>",
      "begin when this many readers are there (default: 1)",
      (text) => parseInteger(text, 0, limits.channelReadersMax),
    )
    .option("--keep", "keep the channel for a later sender with --resume, until `cuda-ipc rm`")
    .option("--resume", "continue a channel whose sender used --keep, after that sender has ended")
    .addHelpText("after", MORE);
}

/** Options that set up a channel. With --resume the channel exists already. */
const ofTheChannel = [
  "dtype",
  "shape",
  "byteLength",
  "slots",
  "readersMax",
  "whenFull",
  "share",
] as const;

/** @throws UsageError */
export function checkSendOptions(
  options: SendOptions,
  paths: readonly string[],
): Framing | undefined {
  const { byteLength, dtype, shape, repeat, waitReaders, readersMax, resume } = options;
  if (paths.includes("-"))
    throw new UsageError('"-" is not needed: without files, standard input is read');
  if (byteLength !== undefined && (shape !== undefined || dtype !== undefined)) {
    throw new UsageError("--byte-length replaces --dtype and --shape: give one or the other");
  }
  const fixed = ofTheChannel.filter((name) => options[name] !== undefined);
  // Shape and dtype are allowed, because they also say how to cut standard input.
  const refused = fixed.filter((name) => name !== "shape" && name !== "dtype");
  if (resume && refused.length > 0) {
    throw new UsageError(
      `--resume continues a channel as it is: leave out ${refused.map(flagOf).join(" and ")}`,
    );
  }
  if (waitReaders !== undefined && readersMax !== undefined && waitReaders > readersMax) {
    throw new UsageError(
      `--wait-readers ${waitReaders} waits for more than --readers-max ${readersMax}`,
    );
  }
  const framing = framingOf(options, paths);
  if (repeat !== undefined && (paths.length === 0 || framing !== undefined)) {
    throw new UsageError("--repeat needs files, and sends each of them as one message");
  }
  return framing;
}

function framingOf(options: SendOptions, paths: readonly string[]): Framing | undefined {
  const { frames, lines, npy, shape, dtype = "uint8" } = options;
  const given = [frames !== undefined, lines === true, npy === true].filter(Boolean).length;
  if (given > 1) throw new UsageError("give only one of --lines, --frames and --npy");
  if (lines) return { kind: "lines" };
  if (npy) return { kind: "npy" };
  if (frames !== undefined) return { kind: "frames", byteLength: frames };
  if (paths.length > 0) return undefined;
  if (shape === undefined) {
    throw new UsageError(
      "say how to cut standard input into messages: --lines, --frames SIZE, --npy or --shape SHAPE",
    );
  }
  const byteLength = sizeOf(dtype, shape);
  return { kind: "frames", byteLength };
}

function sizeOf(dtype: DType, shape: readonly number[]): number {
  try {
    const byteLength = arrayByteLength(dtype, shape);
    if (byteLength > 0 && byteLength <= limits.viewBytesMax) return byteLength;
  } catch {
    // The size is above what a number can hold.
  }
  throw new UsageError(
    `--shape: a message of ${dtype}[${shape.join(", ")}] ` +
      `must have from 1 to ${limits.viewBytesMax} bytes`,
  );
}

function flagOf(name: string): string {
  return `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
}

function parseSize(text: string): number {
  const byteLength = parseBytes(text);
  if (byteLength !== undefined && byteLength > 0 && byteLength <= limits.viewBytesMax)
    return byteLength;
  throw new InvalidArgumentError(
    `Give a number of bytes from 1 to ${limits.viewBytesMax}, such as 4096 or 6MiB.`,
  );
}

function parseMeta(text: string): { readonly value: JsonValue } {
  try {
    return { value: JSON.parse(text) as JsonValue };
  } catch {
    throw new InvalidArgumentError(`Give a JSON value, such as '{"camera": 1}'.`);
  }
}

function parseRepeat(text: string): number {
  if (text === "forever") return Number.POSITIVE_INFINITY;
  if (/^0*[1-9]\d*$/.test(text) && Number.isSafeInteger(Number(text))) return Number(text);
  throw new InvalidArgumentError('Give an integer, 1 or more, or "forever".');
}

function parseRate(text: string): number {
  const rate = Number(text.replace(/\/s$/, ""));
  if (/^\d*\.?\d+(\/s)?$/.test(text) && rate >= 0.001) return rate;
  throw new InvalidArgumentError("Give a number, 0.001 or more, such as 30 or 0.5.");
}
