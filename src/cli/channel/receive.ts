/** `cuda-ipc channel receive NAME`: messages of a channel into files, to standard output, or counted. */
import { type Command, InvalidArgumentError, Option } from "commander";
import { hasCode } from "../../base/errors.js";
import type { ChannelReader } from "../../channel/channel-reader.js";
import { FairTurns } from "../../channel/fair-turns.js";
import type { ReceivedSlot } from "../../channel/received-slot.js";
import type { Hub } from "../../client/hub.js";
import { formatByName } from "../../files/file-format.js";
import type { ReadFrom } from "../../ring/ring-reader.js";
import { parseCount } from "../arguments.js";
import type { CommandContext } from "../command-context.js";
import { UsageError } from "../error-report.js";
import { joinHubFor, joinOrStartHub } from "../join-hub.js";
import type { MessageFormat } from "./message-bytes.js";
import { fileSink, filesSink, type MessageSink, standardOutputSink } from "./message-sinks.js";
import { filePattern } from "./output-pattern.js";
import { Traffic } from "./traffic.js";

interface ReceiveOptions {
  readonly device?: string;
  readonly from?: ReadFrom;
  readonly count?: number;
  readonly output?: string;
  readonly lines?: boolean;
  readonly npy?: boolean;
  readonly json?: boolean;
  readonly force?: boolean;
  readonly mayBeOvertaken?: boolean;
  /** False with --no-wait. */
  readonly wait: boolean;
}

const COMMAND = "channel receive";

const MORE = `
Without --output, --lines, --npy and --json the messages are counted, and nothing is done with them.

Examples:
  $ cuda-ipc channel receive numbers --lines | sort
  $ cuda-ipc channel receive frames --output frame-%06d.npy
  $ cuda-ipc channel receive frames --from latest --count 1 --output now.npy
  $ cuda-ipc channel receive video --output - | ffplay -f rawvideo -pixel_format rgb24 -video_size 1920x1080 -
  $ cuda-ipc channel receive frames --json --may-be-overtaken | jq .missed`;

export function addReceive(channel: Command, context: CommandContext): void {
  channel
    .command("receive")
    .description("receive the messages of a channel, until it ends; waits where there is none yet")
    .argument("<name>", "the name under which they are sent")
    .addOption(
      new Option(
        "--from <where>",
        "where to begin: with the next message, the latest, or the oldest that is there",
      ).choices(["next", "latest", "oldest"]),
    )
    .option("-c, --count <count>", "end after so many messages", parseMessages)
    .option(
      "-o, --output <path>",
      "a file for all, a file each (frame-%d.npy), or - for standard output; .npy or raw by its name",
    )
    .option("--lines", "write each message as a line, to standard output unless --output says otherwise")
    .option("--npy", "write .npy after .npy, likewise")
    .option("--json", "print a line of JSON about each message, without its data")
    .option("-f, --force", "replace files that are there already")
    .option("--may-be-overtaken", "do not hold up the sender: lose messages, which are counted, where this is too slow")
    .option("-d, --device <device>", "read on this GPU instead of the one that the memory is on")
    .option("--no-wait", "fail where there is no such channel")
    .addHelpText("after", MORE)
    .action((name: string, options: ReceiveOptions) => receive(name, options, context));
}

interface Destination {
  readonly sinks: readonly MessageSink[];
  /** Whether messages themselves go to standard output. */
  readonly onStandardOutput: boolean;
}

async function receive(name: string, options: ReceiveOptions, context: CommandContext): Promise<void> {
  const { sinks, onStandardOutput } = await destinationOf(options, formatOf(options), context);
  const { terminal, signal } = context;
  await using hub = await (options.wait ? joinOrStartHub(context, COMMAND) : joinHubFor(context, COMMAND, name));
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
  if (lines && npy) throw new UsageError("give one of --lines and --npy");
  const isData = output === "-" || (output === undefined && (lines || npy));
  if (json && isData) throw new UsageError("--json and messages themselves cannot both go to standard output");
  if (lines) return "lines";
  return npy || (output !== undefined && formatByName(output) === "npy") ? "npy" : "raw";
}

async function destinationOf(
  { output, lines, npy, json, force = false }: ReceiveOptions,
  format: MessageFormat,
  context: CommandContext,
): Promise<Destination> {
  const sinks: MessageSink[] = [];
  const onStandardOutput = json || output === "-" || (output === undefined && (lines || npy)) || false;
  if (onStandardOutput) sinks.push(standardOutputSink(json ? "json" : format, context));
  if (output !== undefined && output !== "-") {
    const pattern = filePattern(output);
    const files =
      pattern === undefined ? fileSink(output, force, format, context) : filesSink(pattern, force, format, context);
    sinks.push(await files);
  }
  return { sinks, onStandardOutput };
}

async function openReader(
  hub: Hub,
  name: string,
  { device, from, mayBeOvertaken, wait }: ReceiveOptions,
  { terminal, signal }: CommandContext,
): Promise<ChannelReader> {
  const options = { device, from, mayBeOvertaken, signal };
  try {
    return await hub.openChannel(name, { ...options, wait: false });
  } catch (error) {
    if (!wait || !hasCode(error, "NOT_FOUND")) throw error;
  }
  terminal.note(`Waits for channel "${name}": cuda-ipc channel send ${name} ...`);
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
    // WHY also then: what was received before is not lost with the rest.
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

/** All of them; then throws what the first failed with. */
async function closeAll(sinks: readonly MessageSink[]): Promise<void> {
  const outcomes = await Promise.allSettled(sinks.map((sink) => sink.close()));
  for (const outcome of outcomes) if (outcome.status === "rejected") throw outcome.reason;
}

function parseMessages(text: string): number {
  const count = parseCount(text);
  if (count > 0) return count;
  throw new InvalidArgumentError("Wanted an integer from 1.");
}
