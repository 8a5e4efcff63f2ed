/** `cuda-ipc channel receive NAME`: writes messages to files or standard output, or counts them. */
import { type Command, Option } from "commander";
import { hasCode } from "../../base/errors.js";
import type { ChannelReader } from "../../channel/channel-reader.js";
import { FairTurns } from "../../channel/hot/fair-turns.js";
import type { ReceivedSlot } from "../../channel/received-slot.js";
import type { Hub } from "../../client/hub.js";
import { formatByName } from "../../files/file-format.js";
import type { ReadFrom } from "../../ring/ring-reader.js";
import { parsePositive } from "../arguments.js";
import type { MessageFormat } from "../channel/message-bytes.js";
import {
  filePattern,
  fileSink,
  filesSink,
  type MessageSink,
  standardOutputSink,
} from "../channel/message-sinks.js";
import { Traffic } from "../channel/traffic.js";
import type { CommandContext } from "../command-context.js";
import { joinHubFor, joinOrStartHub } from "../join-hub.js";
import { UsageError } from "../terminal/error-report.js";

interface ReceiveOptions {
  readonly device?: string;
  readonly from?: ReadFrom;
  readonly count?: number;
  readonly output?: string;
  readonly lines?: boolean;
  readonly npy?: boolean;
  readonly json?: boolean;
  readonly force?: boolean;
  readonly lossy?: boolean;
  /** False with --no-wait. */
  readonly wait: boolean;
}

const COMMAND = "channel receive";

const MORE = `
Without --output, --lines, --npy and --json, messages are only counted.

Examples:
  $ cuda-ipc channel receive numbers --lines | sort
  $ cuda-ipc channel receive frames --output frame-%06d.npy
  $ cuda-ipc channel receive frames --from latest --count 1 --output now.npy
  $ cuda-ipc channel receive video --output - \\
      | ffplay -f rawvideo -pixel_format rgb24 -video_size 1920x1080 -
  $ cuda-ipc channel receive frames --json --lossy | jq .missed`;

export function addReceive(channel: Command, context: CommandContext): void {
  channel
    .command("receive")
    .description("receive messages until the channel ends; waits if the channel does not exist yet")
    .argument("<name>", "the name of the channel")
    .addOption(
      new Option(
        "--from <where>",
        "begin with the next message, the latest one, " +
          "or the oldest one still there (default: next)",
      ).choices(["next", "latest", "oldest"]),
    )
    .option("-c, --count <count>", "end after this many messages", (text) => parsePositive(text))
    .option(
      "-o, --output <path>",
      "one file for all messages, one each (frame-%d.npy), or - for standard output; " +
        ".npy or raw by its name",
    )
    .option("--lines", "write each message as a line, to standard output or --output")
    .option("--npy", "write each message as .npy, to standard output or --output")
    .option("--json", "print a line of JSON about each message, without its data")
    .option("-f, --force", "replace files that exist")
    .option(
      "--lossy",
      "do not slow down the sender: if this receiver is too slow, " +
        "it misses messages and counts them",
    )
    .option("-d, --device <device>", "read on this GPU instead of the one the memory is on")
    .option("--no-wait", "fail if the channel does not exist")
    .addHelpText("after", MORE)
    .action((name: string, options: ReceiveOptions) => receive(name, options, context));
}

interface Destination {
  readonly sinks: readonly MessageSink[];
  /** Whether standard output carries the messages. */
  readonly onStandardOutput: boolean;
}

async function receive(
  name: string,
  options: ReceiveOptions,
  context: CommandContext,
): Promise<void> {
  const { sinks, onStandardOutput } = await destinationOf(options, formatOf(options), context);
  const { terminal, signal } = context;
  await using hub = await (options.wait
    ? joinOrStartHub(context, COMMAND)
    : joinHubFor(context, COMMAND, name));
  using reader = await openReader(hub, name, options, context);
  const traffic = new Traffic(terminal, "Received", {
    lines: !onStandardOutput,
    shown: !(onStandardOutput && terminal.isRead),
    losses: () => (reader.missed > 0 ? `${reader.missed} missed` : undefined),
  });
  try {
    await receiveEach(reader, sinks, traffic, options.count ?? Number.POSITIVE_INFINITY, signal);
  } finally {
    traffic.stop();
    if (!onStandardOutput) terminal.line(traffic.summary());
    else if (reader.missed > 0) terminal.note(traffic.summary());
  }
}

/** @throws UsageError */
function formatOf({ output, lines, npy, json }: ReceiveOptions): MessageFormat {
  if (lines && npy) throw new UsageError("give only one of --lines and --npy");
  const isData = output === "-" || (output === undefined && (lines || npy));
  if (json && isData)
    throw new UsageError(
      "--json and the messages cannot both go to standard output: add --output FILE",
    );
  if (lines) return "lines";
  return npy || (output !== undefined && formatByName(output) === "npy") ? "npy" : "raw";
}

async function destinationOf(
  { output, lines, npy, json, force = false }: ReceiveOptions,
  format: MessageFormat,
  context: CommandContext,
): Promise<Destination> {
  const sinks: MessageSink[] = [];
  const onStandardOutput =
    json || output === "-" || (output === undefined && (lines || npy)) || false;
  if (onStandardOutput) sinks.push(standardOutputSink(json ? "json" : format, context));
  if (output !== undefined && output !== "-") {
    const pattern = filePattern(output);
    const files =
      pattern === undefined
        ? fileSink(output, force, format, context)
        : filesSink(pattern, force, format, context);
    sinks.push(await files);
  }
  return { sinks, onStandardOutput };
}

async function openReader(
  hub: Hub,
  name: string,
  { device, from, lossy, wait }: ReceiveOptions,
  { terminal, signal }: CommandContext,
): Promise<ChannelReader> {
  const options = { device, from, lossy, signal };
  try {
    return await hub.openChannel(name, { ...options, wait: false });
  } catch (error) {
    if (!wait || !hasCode(error, "NOT_FOUND")) throw error;
  }
  terminal.note(`Waiting for channel "${name}": cuda-ipc channel send ${name} ...`);
  return hub.openChannel(name, { ...options, timeoutMs: Number.POSITIVE_INFINITY });
}

async function receiveEach(
  reader: ChannelReader,
  sinks: readonly MessageSink[],
  traffic: Traffic,
  count: number,
  signal: AbortSignal,
): Promise<void> {
  const turns = new FairTurns();
  try {
    while (traffic.messages < count && sinks.every((sink) => sink.isOpen)) {
      const slot = reader.tryNext() ?? (await nextAfterPause(reader, sinks, signal));
      if (slot === undefined) break;
      try {
        for (const sink of sinks) await sink.take(slot);
      } finally {
        slot.release();
      }
      traffic.add(slot.byteLength);
      const pause = turns.turn();
      if (pause !== undefined) await pause;
      signal.throwIfAborted();
    }
  } catch (error) {
    // Closed also after a failure, so that messages received before it are not lost.
    await closeAll(sinks).catch(() => {});
    throw error;
  }
  await closeAll(sinks);
}

async function nextAfterPause(
  reader: ChannelReader,
  sinks: readonly MessageSink[],
  signal: AbortSignal,
): Promise<ReceivedSlot | undefined> {
  for (const sink of sinks) await sink.flush();
  return reader.next({ signal });
}

/** Closes all sinks, then throws the first failure. */
async function closeAll(sinks: readonly MessageSink[]): Promise<void> {
  const outcomes = await Promise.allSettled(sinks.map((sink) => sink.close()));
  for (const outcome of outcomes) if (outcome.status === "rejected") throw outcome.reason;
}
