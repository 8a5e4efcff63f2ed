/**
 * `cuda-ipc top`: shows who holds memory and how fast channels go, again and again on a terminal,
 * once anywhere else.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { type Command, InvalidArgumentError, Option } from "commander";
import { hasCode } from "../../base/errors.js";
import { hubSocketPath } from "../../client/connect.js";
import { hubWithoutSocket } from "../../client/connection/reach-hub.js";
import { HubWatch } from "../../watch/hub-watch.js";
import { ratesBetween } from "../../watch/rates.js";
import { parseTime } from "../arguments.js";
import type { CommandContext } from "../command-context.js";
import { describeAbsentHub } from "../join-hub.js";
import { LiveTop } from "../top/live-top.js";
import { lookAsJson, printLook } from "../top/plain-text.js";
import { type Look, lookAt } from "../top/view.js";

interface TopOptions {
  readonly interval: number;
  readonly filter?: string;
  readonly once?: boolean;
  readonly json?: boolean;
}

const INTERVAL_MS = 1000;
const INTERVAL_MS_MIN = 100;
const INTERVAL_MS_MAX = 3_600_000;

export function addTop(program: Command, context: CommandContext): void {
  program
    .command("top")
    .description("show live who holds memory, and how fast channels and services go")
    .addOption(
      new Option("-i, --interval <time>", "time between two looks")
        .argParser(parseInterval)
        .default(INTERVAL_MS, "1s"),
    )
    .option("-f, --filter <text>", "show only rows with this text")
    .option("--once", "print everything once, as when the output is not a terminal")
    .option("--json", "print everything once, as JSON")
    .addHelpText(
      "after",
      "\nPress ? for the keys.\n\nExamples:\n  $ cuda-ipc top\n" +
        "  $ cuda-ipc top --json | jq '.objects[] | {name, heldBytes, holders}'",
    )
    .action((options: TopOptions) => top(options, context));
}

async function top(options: TopOptions, context: CommandContext): Promise<void> {
  await using watch = new HubWatch({ program: "cuda-ipc top" });
  const stream = options.once || options.json ? undefined : context.terminal.screenStream;
  if (stream === undefined) return await printOnce(watch, options, context);
  using live = new LiveTop(watch, stream, context, options);
  await live.run();
}

/** Two looks if there is anything to have a rate. */
async function printOnce(
  watch: HubWatch,
  { interval, filter = "", json }: TopOptions,
  { terminal, signal }: CommandContext,
): Promise<void> {
  const first = await watch.snapshot({ signal });
  const { trouble } = watch;
  if (trouble !== undefined && !isAbsence(trouble)) throw trouble;
  let look: Look = lookAt(first, undefined);
  if (first.channels.length > 0) {
    await sleep(interval, undefined, { signal }).catch(() => signal.throwIfAborted());
    const second = await watch.snapshot({ signal });
    look = lookAt(second, ratesBetween(first, second));
  }
  if (json) return terminal.json(lookAsJson(look));
  if (trouble !== undefined)
    terminal.line(`Nothing is shared: ${describeAbsentHub(undefined).words}.`);
  printLook(terminal, look, filter);
}

/** Whether no hub runs. A hub whose socket is gone is a failure. */
function isAbsence(error: unknown): boolean {
  const isRunning = hubWithoutSocket(hubSocketPath(undefined)) !== undefined;
  return hasCode(error, "HUB_UNAVAILABLE") && !isRunning;
}

function parseInterval(text: string): number {
  const ms = parseTime(text);
  if (ms >= INTERVAL_MS_MIN && ms <= INTERVAL_MS_MAX) return ms;
  throw new InvalidArgumentError("Give a time from 100ms to 60min.");
}
