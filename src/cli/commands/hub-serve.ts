/** `cuda-ipc hub serve`: runs a hub in the foreground until it is idle, stopped or interrupted. */
import { type Command, InvalidArgumentError, Option } from "commander";
import { CudaIpcError } from "../../base/errors.js";
import { defaults } from "../../base/limits.js";
import {
  defaultLogSettings,
  type Log,
  type LogFormat,
  type LogLevel,
  logFormats,
  logLevels,
} from "../../base/log-events.js";
import { foregroundLog } from "../../hub/hub-log.js";
import { accountNames, hubSettings } from "../../hub/limits/config-file.js";
import {
  checkHubConfig,
  type HubConfig,
  isQuotaField,
  NO_CONFIG,
  overlay,
} from "../../hub/limits/hub-config.js";
import { servesOthers } from "../../hub/limits/policy.js";
import { HubService } from "../../hub/restart/hub-service.js";
import { HubServer } from "../../hub/server/hub-server.js";
import { prepareHubProcess } from "../../hub/server/hub-start.js";
import { isLoopback, type WebAddress, webAddressText } from "../../web/web-address.js";
import { parseCount, socketOption } from "../arguments.js";
import type { CommandContext } from "../command-context.js";
import { MetricsProcess } from "../metrics-process.js";
import { idleWords } from "../terminal/words.js";
import { servedWords } from "./hub-check-config.js";
import { parseListen } from "./metrics.js";

/** EX_TEMPFAIL of sysexits.h. */
const RESTART_EXIT_CODE = 75;

/** Which users the hub serves, and how much each may use. */
interface PolicyOptions {
  readonly config?: string;
  readonly allowUsers?: HubConfig;
  readonly allowGroups?: HubConfig;
  readonly limit?: HubConfig;
}

interface LogOptions {
  readonly logLevel?: LogLevel;
  readonly logFormat?: LogFormat;
}

interface ServeOptions extends PolicyOptions, LogOptions {
  readonly socket?: string;
  readonly idleMs?: number;
  readonly stay?: boolean;
  readonly metrics?: WebAddress;
}

export function addHubServe(hub: Command, context: CommandContext): void {
  const command = hub
    .command("serve")
    .description("run a hub in the foreground; Ctrl-C ends it and drops all names")
    .addOption(socketOption())
    .addOption(
      new Option(
        "--idle-ms <ms>",
        "end after this many milliseconds without clients and objects " +
          `(default: ${defaults.hubIdleMs})`,
      )
        .argParser(parseCount)
        .conflicts("stay"),
    )
    .option("--stay", "do not end when idle")
    .addOption(
      new Option(
        "--metrics <address>",
        "serve metrics for Prometheus there: a port of this machine only, or HOST:PORT; " +
          "the hub then stays when idle",
      )
        .argParser(parseListen)
        .conflicts("idleMs"),
    )
    .addOption(
      new Option(
        "--log-level <level>",
        `log only lines of this level and above (default: ${defaultLogSettings.level})`,
      ).choices(logLevels),
    )
    .addOption(
      new Option(
        "--log-format <format>",
        `text for people, json for programs (default: ${defaultLogSettings.format})`,
      ).choices(logFormats),
    )
    .addHelpText(
      "after",
      "\nExamples:\n  $ cuda-ipc hub serve --stay\n" +
        "  $ cuda-ipc hub serve --allow-groups render --limit user.deviceBytes=64GiB",
    )
    .action((options: ServeOptions) => serve(options, context));
  addPolicyOptions(command);
}

async function serve(options: ServeOptions, context: CommandContext): Promise<void> {
  const { interruption } = context;
  const settings = hubSettings(options.config, overlay(policyFields(options), logFields(options)));
  const { policy, file, log: logSettings } = settings;
  // WHY not the terminal: a full disk or a reader that does not read must not stop the hub.
  const log = foregroundLog(logSettings);
  const { metrics } = options;
  // The process that serves metrics is a client, so such a hub is never idle.
  const stays = options.stay || metrics !== undefined;
  const idleMs = stays ? Number.POSITIVE_INFINITY : (options.idleMs ?? settings.idleMs);
  prepareHubProcess();
  const service = HubService.ofProcess({
    log,
    logSettings,
    command: [process.execPath, ...process.argv.slice(1)],
  });
  const hub = HubServer.start({
    socket: options.socket ?? settings.socket,
    idleMs,
    policy,
    service,
    metrics: () => exporter?.url,
    log,
    logsChanges: logSettings.level === "debug",
  });
  using exporter = metrics === undefined ? undefined : startMetrics(metrics, hub.socketPath, log);
  const { pid } = process;
  log("hub-started", `hub ${pid} listens at ${hub.socketPath}`, { pid, path: hub.socketPath });
  const say = (message: string) => log("hub-started", message, { pid });
  say(`the hub ${Number.isFinite(idleMs) ? idleWords(idleMs) : "stays until it is stopped"}`);
  if (service?.keeper !== undefined) {
    say(
      `if this hub is killed or restarted, keeper ${service.keeper.pid} starts the next ` +
        "one in the background",
    );
  }
  if (file !== undefined) say(`configured by ${file}`);
  if (servesOthers(policy)) say(`serves ${servedWords(policy)}`);
  await Promise.race([hub.ended, interruption.received()]);
  // A service manager may start the hub again, and hands over what it kept of this one.
  if (service?.isManaged && interruption.name === "SIGTERM") hub.leave();
  else hub.stop();
  await hub.ended;
  // WHY: a service manager starts the next hub only after a failure (Restart=on-failure).
  if (service?.isManaged && hub.hasLeft && interruption.name === undefined)
    context.exitCode = RESTART_EXIT_CODE;
  log("hub-ended", interruption.signal.aborted ? "interrupted: hub ended" : "hub ended", { pid });
}

function startMetrics(address: WebAddress, socketPath: string, log: Log): MetricsProcess {
  if (!isLoopback(address)) {
    const found = "other machines can read names of objects, programs and users there";
    log("metrics-open", `metrics are at ${webAddressText(address)}: ${found}`);
  }
  return new MetricsProcess({ address: webAddressText(address), socketPath, log });
}

function addPolicyOptions(command: Command): Command {
  return command
    .option(
      "--config <file>",
      "the hub's configuration file, see docs/reference.md (default: ~/.config/cuda-ipc/hub.json)",
    )
    .option(
      "--allow-users <users>",
      'serve these users, too: names or uids (alice,1001), or "all"',
      (text) => fieldsOf({ users: text === "all" ? text : text.split(",") }),
    )
    .option("--allow-groups <groups>", "serve the members of these groups, too", (text) =>
      fieldsOf({ groups: text.split(",") }),
    )
    .option(
      "--limit <limit>",
      "a limit, such as user.hostBytes=8GiB or client.objects=100; may be repeated",
      parseLimit,
    );
}

/** The settings of the options. They override the configuration file. */
function policyFields({ allowUsers, allowGroups, limit }: PolicyOptions): HubConfig {
  return [allowUsers, allowGroups, limit].reduce<HubConfig>(
    (all, fields) => (fields === undefined ? all : overlay(all, fields)),
    NO_CONFIG,
  );
}

function logFields({ logLevel, logFormat }: LogOptions): HubConfig {
  return { ...NO_CONFIG, ...(logLevel && { logLevel }), ...(logFormat && { logFormat }) };
}

function parseLimit(text: string, earlier: HubConfig = NO_CONFIG): HubConfig {
  const found = /^(hub|user|client)\.(\w+)=(.+)$/.exec(text);
  const [, level = "", resource = "", value = ""] = found ?? [];
  if (!isQuotaField(resource)) {
    throw new InvalidArgumentError(
      "Give LEVEL.LIMIT=VALUE, such as user.objects=100. LEVEL is hub, user or client.",
    );
  }
  const number = /^\d+$/.test(value) ? Number(value) : value;
  return overlay(earlier, fieldsOf({ limits: { [level]: { [resource]: number } } }));
}

function fieldsOf(fields: object): HubConfig {
  try {
    return checkHubConfig("it", fields, accountNames());
  } catch (error) {
    if (!(error instanceof CudaIpcError)) throw error;
    throw new InvalidArgumentError(`${error.message.replace(/^Cannot use it: /, "")}.`);
  }
}
