/** `cuda-ipc bridge status`: what the bridge of this machine knows of the others. */
import type { Command } from "commander";
import { Deadline } from "../../base/deadline.js";
import { defaults } from "../../base/limits.js";
import { hubSocketPath } from "../../client/connect.js";
import { askBridge } from "../../client/connection/bridge-call.js";
import type { BridgeStatus } from "../../wire/bridge-messages.js";
import { socketOption } from "../arguments.js";
import type { CommandContext } from "../command-context.js";
import { formatTable } from "../terminal/table.js";
import type { Terminal } from "../terminal/terminal.js";
import { ageWords, copyWords, plural, sizeWords } from "../terminal/words.js";

interface StatusOptions {
  readonly socket?: string;
  readonly json?: boolean;
}

export function addBridgeStatus(bridge: Command, context: CommandContext): void {
  bridge
    .command("status")
    .description("show the machines and names that the bridge knows")
    .addOption(socketOption())
    .option("--json", "print JSON")
    .addHelpText("after", "\nExample:\n  $ cuda-ipc bridge status")
    // WHY of both commands: `bridge` has --socket, too, and the parser gives it to that one.
    .action((_, command: Command) => status(command.optsWithGlobals(), context));
}

async function status({ socket, json }: StatusOptions, context: CommandContext): Promise<void> {
  const { terminal, signal } = context;
  const deadline = new Deadline("ask the bridge", { signal }, defaults.requestTimeoutMs);
  const found = await askBridge(hubSocketPath(socket), deadline);
  if (json) terminal.json(found);
  else print(terminal, found);
}

function print(terminal: Terminal, found: BridgeStatus): void {
  const { machine, namesAwayMs, ucx, transports, machines, fetches, refused, names } = found;
  const nats =
    namesAwayMs === null ? "NATS answers" : `NATS has not answered for ${ageWords(namesAwayMs)}`;
  terminal.line(`Machine "${machine}": ${nats}; UCX ${ucx} with ${transports.join(", ")}.`);
  const own = machines.find((it) => it.machine === machine)?.version;
  for (const other of machines)
    if (other.machine !== machine) terminal.line(machineLine(other, own));
  if (found.machinesLeftOut > 0)
    terminal.line(`And ${plural(found.machinesLeftOut, "more machine")}.`);
  for (const { name, machine: other } of refused)
    terminal.line(`"${name}" is not announced: machine "${other}" announced it before.`);
  for (const copy of fetches)
    terminal.line(`Copying "${copy.name}" from "${copy.machine}": ${copyWords(copy)}.`);
  for (const service of found.services) terminal.line(serviceLine(service, machine));
  if (found.servicesLeftOut > 0)
    terminal.line(`And ${plural(found.servicesLeftOut, "more service")}.`);
  for (const channel of found.channels) terminal.line(channelLine(channel));
  if (found.channelsLeftOut > 0)
    terminal.line(`And ${plural(found.channelsLeftOut, "more channel")}.`);
  if (names.length === 0) return;
  const rows = names.map((it) => [it.name, sizeWords(it.byteLength), it.machine]);
  const columns = [
    { title: "NAME" },
    { title: "SIZE", align: "right" },
    { title: "MACHINE" },
  ] as const;
  const [titles = "", ...lines] = formatTable(columns, rows);
  terminal.line();
  terminal.line(terminal.style("bold", titles));
  for (const line of lines) terminal.line(line);
}

function machineLine(
  { machine, alive, names, version }: BridgeStatus["machines"][number],
  own: number | undefined,
): string {
  if (version !== undefined && own !== undefined && version !== own)
    return `Machine "${machine}" cannot be used: its bridge speaks version ${version}, not ${own}.`;
  const state = alive ? "" : ", whose bridge is gone";
  return `Machine "${machine}"${state}: ${plural(names, "name")}.`;
}

function serviceLine(
  { service, machine, workersUsed }: BridgeStatus["services"][number],
  own: string,
): string {
  const workers = workersUsed === 0 ? "" : `: ${plural(workersUsed, "worker")} in use`;
  return machine === own
    ? `Service "${service}" is announced${workers === "" ? "" : `${workers} by other machines`}.`
    : `Service "${service}" of machine "${machine}"${workers === "" ? "" : `${workers} here`}.`;
}

function channelLine({
  name,
  direction,
  machine,
  messages,
}: BridgeStatus["channels"][number]): string {
  const way =
    direction === "in" ? `comes from machine "${machine}"` : `goes to machine "${machine}"`;
  return `Channel "${name}" ${way}: ${plural(messages, "message")}.`;
}
