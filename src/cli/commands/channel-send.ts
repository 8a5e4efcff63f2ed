/** `cuda-ipc channel send NAME [FILES...]`: sends files or standard input as messages. */
import { setTimeout as sleep } from "node:timers/promises";
import type { Command } from "commander";
import { arrayByteLength } from "../../array/layout.js";
import { CudaIpcError, hasCode } from "../../base/errors.js";
import type { ChannelWriter } from "../../channel/channel-writer.js";
import { FairTurns } from "../../channel/hot/fair-turns.js";
import type { CommitOptions, LoanedSlot } from "../../channel/loaned-slot.js";
import { encodeMeta } from "../../channel/message-meta.js";
import type { Hub } from "../../client/hub.js";
import { readFileInto } from "../../gpu/transfer/file-transfer.js";
import { fileMessages } from "../channel/file-messages.js";
import type {
  AskedSlot,
  MessageSource,
  OutgoingMessage,
  SlotFacts,
} from "../channel/message-source.js";
import { addSendOptions, checkSendOptions, type SendOptions } from "../channel/send-options.js";
import { type Framing, streamMessages } from "../channel/stream-messages.js";
import { Traffic } from "../channel/traffic.js";
import type { CommandContext } from "../command-context.js";
import { joinHubFor, joinOrStartHub } from "../join-hub.js";
import { UsageError } from "../terminal/error-report.js";
import { arrayWords, chosenDeviceWords, plural } from "../terminal/words.js";

const COMMAND = "channel send";
/** How often to look for readers. */
const POLL_MS = 20;
/** A sender that fell behind --rate catches up on at most this much time. */
const CATCH_UP_MS = 100;
const META_BYTES_MIN = 256;

interface Sending {
  readonly hub: Hub;
  readonly name: string;
  readonly writer: ChannelWriter;
  readonly slot: SlotFacts;
  readonly source: MessageSource;
  readonly options: SendOptions;
  readonly context: CommandContext;
}

export function addSend(channel: Command, context: CommandContext): void {
  const command = channel
    .command("send")
    .description(
      "send files or standard input to all receivers; the channel ends when the command ends",
    )
    .argument("<name>", "the name of the channel; receivers use the same")
    .argument(
      "[files...]",
      "one message each: the array of an .npy file, or its bytes (default: standard input)",
    );
  addSendOptions(command).action((name: string, files: readonly string[], options: SendOptions) =>
    send(name, files, options, context),
  );
}

async function send(
  name: string,
  paths: readonly string[],
  options: SendOptions,
  context: CommandContext,
): Promise<void> {
  const framing = checkSendOptions(options, paths);
  if (options.resume) {
    await using hub = await joinHubFor(context, COMMAND, name, { device: options.device });
    const { slot, pinned } = await keptChannel(hub, name, context);
    const source = await sourceOf(paths, framing, slot, options, context);
    try {
      const writer = await hub.resumeChannel(name, { wait: false, signal: context.signal });
      await sendAll({ hub, name, writer, slot, source, options, context });
      if (pinned && !options.keep) await removeIfThere(hub, name);
    } finally {
      await source.close();
    }
    return;
  }
  const source = await sourceOf(paths, framing, options, options, context);
  try {
    await using hub = await joinOrStartHub(context, COMMAND, { device: options.device });
    const writer = await createChannel(hub, name, source.slot, options);
    await sendAll({ hub, name, writer, slot: source.slot, source, options, context });
  } finally {
    await source.close();
  }
}

function sourceOf(
  paths: readonly string[],
  framing: Framing | undefined,
  asked: AskedSlot,
  { repeat = 1 }: SendOptions,
  { signal }: CommandContext,
): Promise<MessageSource> {
  if (framing === undefined) return fileMessages(paths, asked, repeat);
  return streamMessages(paths, framing, asked, signal);
}

async function createChannel(
  hub: Hub,
  name: string,
  { dtype, shape }: SlotFacts,
  options: SendOptions,
): Promise<ChannelWriter> {
  const { slots, readersMax, whenFull, share, meta, keep } = options;
  const metaBytes =
    meta === undefined
      ? 0
      : encodeMeta(name, meta.value, Number.POSITIVE_INFINITY).bytes.byteLength;
  try {
    return await hub.createChannel(name, {
      ...{ dtype, shape, slots, readersMax, whenFull },
      metaBytesMax: Math.max(META_BYTES_MIN, metaBytes),
      ...(share === undefined ? {} : { sharing: { with: share } }),
      // Pinned, because the next sender may come when no process holds the channel.
      ...(keep ? { whenWriterGone: "wait", lifetime: "pinned" } : {}),
    });
  } catch (error) {
    // The values come from the command line.
    if (error instanceof RangeError || error instanceof TypeError)
      throw new UsageError(error.message);
    throw error;
  }
}

/** @throws NOT_FOUND, WRONG_KIND */
async function keptChannel(
  hub: Hub,
  name: string,
  { signal }: CommandContext,
): Promise<{ slot: SlotFacts; pinned: boolean }> {
  const { object } = await hub.inspect(name, { signal });
  const { content } = object.descriptor;
  if (content.kind !== "channel") {
    throw new CudaIpcError(
      "WRONG_KIND",
      `Cannot send to "${name}": it is of kind ${content.kind}, not a channel`,
    );
  }
  if (content.whenWriterGone !== "wait") {
    const found = "it ends with its sender, because that was started without --keep";
    throw new CudaIpcError("IN_USE", `Cannot go on with channel "${name}": ${found}`);
  }
  return { slot: content, pinned: object.lifetime === "pinned" };
}

async function removeIfThere(hub: Hub, name: string): Promise<void> {
  try {
    await hub.remove(name);
  } catch (error) {
    if (!hasCode(error, "NOT_FOUND")) throw error;
  }
}

/** Owns the writer. At the end it ends the channel, or with --keep leaves it to the next sender. */
async function sendAll(sending: Sending): Promise<void> {
  const { writer, source, options, context } = sending;
  const { terminal } = context;
  try {
    await readersCame(sending);
    const losses = () => (writer.dropped > 0 ? `${writer.dropped} dropped` : undefined);
    const traffic = new Traffic(terminal, "Sent", { total: source.total, losses });
    try {
      await sendEach(sending, traffic);
    } finally {
      traffic.stop();
      terminal.line(traffic.summary());
    }
  } finally {
    if (options.keep) writer.close();
    else writer.end();
  }
}

async function readersCame({ hub, name, writer, slot, options, context }: Sending): Promise<void> {
  const { waitReaders = 1 } = options;
  if (waitReaders === 0) return;
  const { terminal, signal } = context;
  using observer = await hub.observeChannel(name, { wait: false, signal });
  const count = () => observer.statistics().readers.length;
  if (count() >= waitReaders) return;
  const what = `${writer.slots} x ${arrayWords(slot)} on ${chosenDeviceWords(writer.device)}`;
  const missing = waitReaders === 1 ? "a reader" : plural(waitReaders, "reader");
  terminal.note(
    `Channel "${name}" of ${what} waits for ${missing}: cuda-ipc channel receive ${name}`,
  );
  while (count() < waitReaders) {
    await sleep(POLL_MS, undefined, { signal }).catch(() => signal.throwIfAborted());
  }
}

async function sendEach(sending: Sending, traffic: Traffic): Promise<void> {
  const { writer, slot: facts, source, options, context } = sending;
  const { signal } = context;
  const slotBytes = arrayByteLength(facts.dtype, facts.shape);
  const turns = new FairTurns();
  const pace = new Pace(options.rate);
  const meta = options.meta?.value;
  for await (const message of source.messages()) {
    checkFits(sending, message, slotBytes);
    await pace.next(signal);
    signal.throwIfAborted();
    using slot = await writer.loan({ signal });
    await fill(slot, message, writer, signal);
    slot.commit({ ...sizeOf(message, facts, slotBytes), meta });
    traffic.add(message.byteLength);
    const pause = turns.turn();
    if (pause !== undefined) await pause;
  }
  signal.throwIfAborted();
}

/** Limits the messages per second. */
class Pace {
  readonly #intervalMs: number;
  #dueMs = performance.now();

  /** @param rate messages a second; undefined for no limit */
  constructor(rate: number | undefined) {
    this.#intervalMs = rate === undefined ? 0 : 1000 / rate;
  }

  /** Resolves when the next message is due. */
  async next(signal: AbortSignal): Promise<void> {
    if (this.#intervalMs === 0) return;
    const waitMs = this.#dueMs - performance.now();
    // Timers take at least 1 ms. What is not waited here is added to the next wait.
    if (waitMs >= 1)
      await sleep(waitMs, undefined, { signal }).catch(() => signal.throwIfAborted());
    this.#dueMs = Math.max(this.#dueMs, performance.now() - CATCH_UP_MS) + this.#intervalMs;
  }
}

function checkFits(
  { name, slot }: Sending,
  { origin, byteLength, array }: OutgoingMessage,
  slotBytes: number,
): void {
  const attempt = `Cannot send ${origin} to channel "${name}"`;
  if (array !== undefined && array.dtype !== slot.dtype) {
    throw new CudaIpcError(
      "INVALID_FILE",
      `${attempt}: its dtype is ${array.dtype}, that of the channel is ${slot.dtype}`,
    );
  }
  if (byteLength > slotBytes) {
    const found = `it has more than ${slotBytes} bytes, the size of a slot (${arrayWords(slot)})`;
    throw new CudaIpcError("MESSAGE_TOO_LARGE", `${attempt}: ${found}`);
  }
  const elementBytes = arrayByteLength(slot.dtype, []);
  if (byteLength % elementBytes !== 0) {
    throw new CudaIpcError(
      "INVALID_FILE",
      `${attempt}: it has ${byteLength} bytes, no whole number of ${slot.dtype} elements`,
    );
  }
}

async function fill(
  slot: LoanedSlot,
  { data, byteLength }: OutgoingMessage,
  { device }: ChannelWriter,
  signal: AbortSignal,
): Promise<void> {
  if (byteLength === 0) return;
  if (data instanceof Uint8Array && device.cpuVisible) {
    slot.bytes.set(data);
    return;
  }
  const { buffer, layout } = slot.array;
  if (data instanceof Uint8Array) await buffer.write(layout.byteOffset, data, { signal });
  else await readFileInto(buffer, layout.byteOffset, data, { signal });
}

function sizeOf(
  { byteLength, array }: OutgoingMessage,
  slot: SlotFacts,
  slotBytes: number,
): CommitOptions {
  if (array !== undefined)
    return array.shape.join() === slot.shape.join() ? {} : { shape: array.shape };
  return byteLength === slotBytes ? {} : { byteLength };
}
