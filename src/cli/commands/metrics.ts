/** `cuda-ipc metrics`: prints metrics of the hub for Prometheus, or serves them by HTTP. */
import { type Command, InvalidArgumentError } from "commander";
import { HubWatch } from "../../watch/hub-watch.js";
import { CONTENT_TYPE } from "../../watch/metrics/exposition.js";
import { MetricsSource } from "../../watch/metrics/metrics-source.js";
import { tokenIn } from "../../web/token-file.js";
import { WebAccess } from "../../web/web-access.js";
import {
  isLoopback,
  parseWebAddress,
  type WebAddress,
  webAddressText,
} from "../../web/web-address.js";
import { textAnswer, type WebAnswer, type WebHandler } from "../../web/web-messages.js";
import { WebServer } from "../../web/web-server.js";
import { socketOption } from "../arguments.js";
import type { CommandContext } from "../command-context.js";
import { METRICS_PATH, type Serving } from "../metrics-process.js";
import { printErrors, UsageError } from "../terminal/error-report.js";

interface MetricsOptions {
  readonly listen?: WebAddress;
  readonly tokenFile?: string;
  readonly socket?: string;
}

export function addMetrics(program: Command, context: CommandContext): void {
  program
    .command("metrics")
    .description("print metrics of the hub as Prometheus reads them, or serve them by HTTP")
    .option(
      "--listen <address>",
      `serve them at ${METRICS_PATH} until Ctrl-C: a port of this machine only, or HOST:PORT`,
      parseListen,
    )
    .option(
      "--token-file <file>",
      "with --listen: serve only programs that send its token; made if it is not there",
    )
    .addOption(socketOption())
    .addHelpText(
      "after",
      "\nExamples:\n  $ cuda-ipc metrics | promtool check metrics\n" +
        "  $ cuda-ipc metrics --listen 9464\n" +
        "  $ cuda-ipc metrics --listen 9464 --token-file token\n" +
        "  $ cuda-ipc metrics --listen 0.0.0.0:9464",
    )
    .action((options: MetricsOptions) => metrics(options, context));
}

async function metrics(options: MetricsOptions, context: CommandContext): Promise<void> {
  const { listen, socket, tokenFile } = options;
  if (tokenFile !== undefined && listen === undefined)
    throw new UsageError("--token-file is for metrics that are served: add --listen");
  await using watch = new HubWatch({ socket, program: "cuda-ipc metrics" });
  const signal = AbortSignal.any([context.signal, parentSignal()]);
  const source = new MetricsSource(watch, signal);
  if (listen === undefined) return context.terminal.text(await source.text());
  const access = tokenFile === undefined ? undefined : new WebAccess(await tokenIn(tokenFile));
  const openWords = access === undefined ? OPEN_WORDS : TOKEN_WORDS;
  await serve(listen, metricsHandler(source, access), openWords, signal, context);
  context.signal.throwIfAborted();
}

async function serve(
  address: WebAddress,
  handler: WebHandler,
  openWords: string,
  signal: AbortSignal,
  { terminal }: CommandContext,
): Promise<void> {
  const isLocal = isLoopback(address);
  await using server = await WebServer.listen({
    address,
    handler,
    // Whoever can connect from elsewhere can read them anyway, by any name of this machine.
    hosts: isLocal ? { names: [] } : "any",
    signal,
    onError: (error) => printErrors(terminal, error),
  });
  const url = `http://${webAddressText(server.address)}${METRICS_PATH}`;
  terminal.line(`Metrics are at ${url}`);
  if (!isLocal) terminal.note(`warning: ${url} ${openWords}`);
  process.send?.({ url } satisfies Serving);
  if (signal.aborted) return;
  await new Promise<void>((resolve) => {
    signal.addEventListener("abort", () => resolve(), { once: true });
  });
}

const OPEN_WORDS = "is open to other machines: names of objects, programs and users, no contents";
const TOKEN_WORDS = "is open to other machines, and its traffic is not encrypted";

const WITHOUT_TOKEN: WebAnswer = {
  ...textAnswer(401, "Send the token of --token-file as a bearer token."),
  headers: { "WWW-Authenticate": "Bearer" },
};

/** Answers scrapes. The dashboard has its own handler for the same text. */
export function metricsHandler(source: MetricsSource, access?: WebAccess): WebHandler {
  return async ({ path, method, bearer }) => {
    if (path !== METRICS_PATH) return textAnswer(404, `Metrics are at ${METRICS_PATH}.`);
    if (method === "POST") return textAnswer(405, "Metrics are only read.");
    if (access?.admits(bearer) === false) return WITHOUT_TOKEN;
    return { status: 200, type: CONTENT_TYPE, body: await source.text() };
  };
}

/** Aborted when the hub that started this process has ended (metrics-process.ts). */
function parentSignal(): AbortSignal {
  const ended = new AbortController();
  process.once("disconnect", () => ended.abort());
  // It may have ended already.
  if (process.send !== undefined && !process.connected) ended.abort();
  // The server alone keeps this process running.
  process.channel?.unref();
  return ended.signal;
}

export function parseListen(text: string): WebAddress {
  const address = parseWebAddress(text);
  if (address !== undefined) return address;
  throw new InvalidArgumentError("Give a port such as 9464, or an IP address with it.");
}
