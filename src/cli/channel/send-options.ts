/** The options of `channel send`, and whether they fit together. */
import { type Command, InvalidArgumentError, Option } from "commander";
import type { DType } from "../../array/dtype.js";
import { arrayByteLength } from "../../array/layout.js";
import { parseBytes } from "../../base/bytes.js";
import { limits } from "../../base/limits.js";
import type { JsonValue } from "../../channel/message-meta.js";
import { type WhenFull, whenFullPolicies } from "../../ring/channel-layout.js";
import { parseCount, parseDTypeName, parsePositive, parseShape } from "../arguments.js";
import { UsageError } from "../error-report.js";
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
  /** Undefined where nothing goes with the messages. */
  readonly meta?: { readonly value: JsonValue };
  readonly repeat?: number;
  readonly rate?: number;
  readonly waitReaders?: number;
  readonly keep?: boolean;
  readonly resume?: boolean;
}

const MORE = `
Without --wait-readers it begins when there is a reader. A reader gets what is sent from the time on when it came.

Examples:
  $ seq 1000 | cuda-ipc channel send numbers --lines
  $ cuda-ipc channel send frames frame-*.npy --rate 30 --repeat forever
  $ ffmpeg -i in.mp4 -f rawvideo -pix_fmt rgb24 - | cuda-ipc channel send video --shape 1080,1920,3 --slots 4`;

export function addSendOptions(command: Command): Command {
  return command
    .option("--lines", "cut what is read into lines, without their line breaks")
    .option("--frames <size>", "cut it into messages of so many bytes: 4096, 6MiB", parseSize)
    .option("--npy", "cut it into arrays: .npy after .npy")
    .option(
      "--dtype <dtype>",
      "element type of the channel (default: that of the first .npy, else uint8)",
      parseDTypeName,
    )
    .option("--shape <shape>", "shape of its largest message, as 1080,1920,3 (default: that of the first)", parseShape)
    .option("--byte-length <size>", "bytes of its largest message, instead of both (lines: 64KiB)", parseSize)
    .option("--slots <count>", "messages that it holds (default: 8)", (text) =>
      parsePositive(text, limits.channelSlotsMax),
    )
    .option("--readers-max <count>", "readers that it can have at a time (default: 8)", (text) =>
      parsePositive(text, limits.channelReadersMax),
    )
    .addOption(
      new Option("--when-full <policy>", "what to do where no slot is free (default: wait)").choices([
        ...whenFullPolicies,
      ]),
    )
    .addOption(
      new Option(
        "--share <whom>",
        "let other users read it: members of your group, or all whom the hub serves",
      ).choices(["group", "all"]),
    )
    .option("-d, --device <device>", "auto, host or cuda:N (default: CUDA_IPC_DEVICE, else auto)")
    .option("--meta <json>", "a JSON value that goes with each message", parseMeta)
    .option("--repeat <count>", 'send the files so many times, or "forever"', parseRepeat)
    .option("--rate <rate>", "messages a second, at most", parseRate)
    .option("--wait-readers <count>", "begin when so many readers are there (default: 1)", (text) =>
      text === "0" ? 0 : parsePositive(text, limits.channelReadersMax),
    )
    .option("--keep", "leave the channel to the next who sends with --resume, until `cuda-ipc rm`")
    .option("--resume", "go on with a channel that was kept, where the one before ended or died")
    .addHelpText("after", MORE);
}

/** What decides the channel, which is there already with --resume. */
const ofTheChannel = ["dtype", "shape", "byteLength", "slots", "readersMax", "whenFull", "share"] as const;

/** @throws UsageError */
export function checkSendOptions(options: SendOptions, paths: readonly string[]): Framing | undefined {
  const { byteLength, dtype, shape, repeat, waitReaders, readersMax, resume } = options;
  if (paths.includes("-")) throw new UsageError('"-" is not needed: standard input is read where no file is named');
  if (byteLength !== undefined && (shape !== undefined || dtype !== undefined)) {
    throw new UsageError("--byte-length stands for --dtype uint8 and --shape: give one or the other");
  }
  const fixed = ofTheChannel.filter((name) => options[name] !== undefined);
  // WHY not the shape: it says how standard input is cut, too.
  const refused = fixed.filter((name) => name !== "shape" && name !== "dtype");
  if (resume && refused.length > 0) {
    throw new UsageError(`--resume goes on with a channel as it is: leave out ${refused.map(flagOf).join(" and ")}`);
  }
  if (waitReaders !== undefined && readersMax !== undefined && waitReaders > readersMax) {
    throw new UsageError(`--wait-readers ${waitReaders} waits for more than --readers-max ${readersMax}`);
  }
  const framing = framingOf(options, paths);
  if (repeat !== undefined && (paths.length === 0 || framing !== undefined)) {
    throw new UsageError("--repeat is for files that are a message each");
  }
  return framing;
}

function framingOf(options: SendOptions, paths: readonly string[]): Framing | undefined {
  const { frames, lines, npy, shape, dtype = "uint8" } = options;
  const given = [frames !== undefined, lines === true, npy === true].filter(Boolean).length;
  if (given > 1) throw new UsageError("give one of --lines, --frames and --npy");
  if (lines) return { kind: "lines" };
  if (npy) return { kind: "npy" };
  if (frames !== undefined) return { kind: "frames", byteLength: frames };
  if (paths.length > 0) return undefined;
  if (shape === undefined) {
    throw new UsageError(
      "say how standard input is cut into messages: --lines, --frames BYTES, --npy or --shape SHAPE",
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
    // More than can be counted.
  }
  throw new UsageError(
    `--shape: a message of ${dtype}[${shape.join(", ")}] must have from 1 to ${limits.viewBytesMax} bytes`,
  );
}

function flagOf(name: string): string {
  return `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
}

function parseSize(text: string): number {
  const byteLength = parseBytes(text);
  if (byteLength !== undefined && byteLength > 0 && byteLength <= limits.viewBytesMax) return byteLength;
  throw new InvalidArgumentError(`Wanted a number of bytes, as 4096 or 6MiB, from 1 to ${limits.viewBytesMax}.`);
}

function parseMeta(text: string): { readonly value: JsonValue } {
  try {
    return { value: JSON.parse(text) as JsonValue };
  } catch {
    throw new InvalidArgumentError(`Wanted JSON, as '{"camera": 1}'.`);
  }
}

function parseRepeat(text: string): number {
  if (text === "forever") return Number.POSITIVE_INFINITY;
  const count = parseCount(text);
  if (count > 0) return count;
  throw new InvalidArgumentError('Wanted an integer from 1, or "forever".');
}

function parseRate(text: string): number {
  const rate = Number(text.replace(/\/s$/, ""));
  if (/^\d*\.?\d+(\/s)?$/.test(text) && rate >= 0.001) return rate;
  throw new InvalidArgumentError("Wanted a number from 0.001: 30, 0.5.");
}
