/**
 * `cuda-ipc channel stat NAME`: prints the state of a channel and its readers, once or repeatedly.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { Command } from "commander";
import type { ChannelStatistics } from "../../channel/channel-observer.js";
import { parsePositive } from "../arguments.js";
import { channelRows, type Growth, readerLines } from "../channel/channel-text.js";
import type { CommandContext } from "../command-context.js";
import { joinHubFor } from "../join-hub.js";
import { printable } from "../terminal/printable.js";
import { alignRows } from "../terminal/table.js";
import type { Terminal } from "../terminal/terminal.js";
import { arrayWords } from "../terminal/words.js";

interface StatOptions {
  readonly interval?: number;
  readonly watch?: boolean;
  readonly json?: boolean;
}

const COMMAND = "channel stat";
const WATCH_INTERVAL_MS = 1000;
const INTERVAL_MS_MAX = 24 * 3600 * 1000;

export function addStat(channel: Command, context: CommandContext): void {
  channel
    .command("stat")
    .description(
      "print the state of a channel: its writer, message counts, how far behind its readers are",
    )
    .argument("<name>", "the name of the channel")
    .option(
      "-i, --interval <ms>",
      "look again after this many milliseconds, and print the rates (with --watch: 1000)",
      (text) => parsePositive(text, INTERVAL_MS_MAX),
    )
    .option("-w, --watch", "repeat until the channel ends or you press Ctrl-C")
    .option("--json", "print JSON; with --watch one line each time")
    .addHelpText(
      "after",
      "\nExamples:\n  $ cuda-ipc channel stat frames --interval 1000\n" +
        "  $ cuda-ipc channel stat frames --watch",
    )
    .action((name: string, options: StatOptions) => stat(name, options, context));
}

async function stat(name: string, options: StatOptions, context: CommandContext): Promise<void> {
  const { signal } = context;
  await using hub = await joinHubFor(context, COMMAND, name);
  using observer = await hub.observeChannel(name, { wait: false, signal });
  const print = printer(name, options, context.terminal);
  let earlier = observer.statistics();
  let atMs = performance.now();
  const intervalMs = options.interval ?? (options.watch ? WATCH_INTERVAL_MS : undefined);
  if (options.watch || intervalMs === undefined) print(earlier, undefined);
  if (intervalMs === undefined) return;
  do {
    await sleep(intervalMs, undefined, { signal }).catch(() => signal.throwIfAborted());
    const now = observer.statistics();
    const nowMs = performance.now();
    print(now, { ms: nowMs - atMs, earlier });
    earlier = now;
    atMs = nowMs;
  } while (options.watch && (earlier.writer === "open" || earlier.writer === "awaited"));
}

type Print = (now: ChannelStatistics, growth: Growth | undefined) => void;

function printer(name: string, { watch, json }: StatOptions, terminal: Terminal): Print {
  if (json) {
    return (now, growth) => {
      const value = {
        name,
        ...now,
        ...(growth === undefined ? {} : { rates: ratesOf(now, growth) }),
      };
      if (watch) terminal.jsonLine(value);
      else terminal.json(value);
    };
  }
  let drawn = 0;
  return (now, growth) => {
    const lines = text(name, now, growth, terminal);
    if (drawn > 0) {
      if (terminal.isRead) terminal.eraseLines(drawn);
      else terminal.line();
    }
    for (const line of lines) terminal.line(line);
    drawn = lines.length;
  };
}

function text(
  name: string,
  now: ChannelStatistics,
  growth: Growth | undefined,
  terminal: Terminal,
): string[] {
  const rows = channelRows(now, growth).map(([title, words]) => [`  ${title.padEnd(10)}`, words]);
  const title = terminal.style("bold", printable(name));
  const readers = readerLines(now, growth);
  return [`${title}: channel of ${now.slots} x ${arrayWords(now)}`, ...alignRows(rows), ...readers];
}

/** All counts per second. */
function ratesOf(now: ChannelStatistics, { ms, earlier }: Growth): object {
  const perSecond = (later: number, before: number) => (Math.max(0, later - before) * 1000) / ms;
  return {
    intervalMs: ms,
    committed: perSecond(now.committed, earlier.committed),
    dropped: perSecond(now.dropped, earlier.dropped),
    readers: now.readers.map(({ place, received, missed }) => {
      const before = earlier.readers.find((reader) => reader.place === place);
      return {
        place,
        received: perSecond(received, before?.received ?? 0),
        missed: perSecond(missed, before?.missed ?? 0),
      };
    }),
  };
}
