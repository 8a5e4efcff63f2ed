/** `cuda-ipc hub serve`: a hub in the foreground, until it is idle, stopped or interrupted. */
import { type Command, Option } from "commander";
import { defaults } from "../base/limits.js";
import { hubSettings } from "../hub/config-file.js";
import { prepareHubProcess } from "../hub/hub-process.js";
import { HubServer } from "../hub/hub-server.js";
import { HubService } from "../hub/hub-service.js";
import { servesOthers } from "../hub/policy.js";
import { parseCount } from "./arguments.js";
import type { CommandContext } from "./command-context.js";
import { servedWords } from "./hub-check-config.js";
import { addPolicyOptions, type PolicyOptions, policyFields } from "./policy-options.js";
import { idleWords } from "./words.js";

/** EX_TEMPFAIL of sysexits.h. */
const RESTART_EXIT_CODE = 75;

interface ServeOptions extends PolicyOptions {
  readonly socket?: string;
  readonly idleMs?: number;
  readonly stay?: boolean;
}

export function addHubServe(hub: Command, context: CommandContext): void {
  const command = hub
    .command("serve")
    .description("run a hub in the foreground; Ctrl-C ends it, and with it all names")
    .option("--socket <path>", "where to listen (default: CUDA_IPC_SOCKET, else one in your runtime folder)")
    .addOption(
      new Option("--idle-ms <ms>", `end after so long without clients and objects (default: ${defaults.hubIdleMs})`)
        .argParser(parseCount)
        .conflicts("stay"),
    )
    .option("--stay", "never end for being idle")
    .addHelpText(
      "after",
      "\nExamples:\n  $ cuda-ipc hub serve --stay\n" +
        "  $ cuda-ipc hub serve --allow-groups render --limit user.deviceBytes=64GiB",
    )
    .action((options: ServeOptions) => serve(options, context));
  addPolicyOptions(command);
}

async function serve(options: ServeOptions, context: CommandContext): Promise<void> {
  const { terminal, interruption } = context;
  // WHY: a full disk under its log, or a terminal that is gone, must not end the hub and what it keeps.
  terminal.dropUnwritable();
  const log = (line: string) => terminal.line(`${new Date().toISOString()}  ${line}`);
  const settings = hubSettings(options.config, policyFields(options));
  const { policy, file } = settings;
  const idleMs = options.stay ? Number.POSITIVE_INFINITY : (options.idleMs ?? settings.idleMs);
  prepareHubProcess();
  const service = HubService.ofProcess({ log, command: [process.execPath, ...process.argv.slice(1)] });
  const hub = HubServer.start({ socket: options.socket ?? settings.socket, idleMs, policy, service, log });
  log(`hub ${process.pid} listens at ${hub.socketPath}`);
  log(`it ${Number.isFinite(idleMs) ? idleWords(idleMs) : "stays until it is stopped"}`);
  if (service?.keeper !== undefined) {
    log(`if it is killed or restarted, keeper ${service.keeper.pid} starts the next one in the background`);
  }
  if (file !== undefined) log(`configured by ${file}`);
  if (servesOthers(policy)) log(`serves ${servedWords(policy)}`);
  await Promise.race([hub.ended, interruption.received()]);
  // WHY: a service manager that ends a service may start it again, and passes on what it kept.
  if (service?.isManaged && interruption.name === "SIGTERM") hub.leave();
  else hub.stop();
  await hub.ended;
  // WHY: for a service manager this is a failure, after which it starts the next hub (Restart=on-failure).
  if (service?.isManaged && hub.hasLeft && interruption.name === undefined) context.exitCode = RESTART_EXIT_CODE;
  log(interruption.signal.aborted ? "interrupted: hub ended" : "hub ended");
}
