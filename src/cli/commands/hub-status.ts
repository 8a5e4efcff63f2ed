/** `cuda-ipc hub status`: prints the state of the hub. Never starts one. */
import type { Command } from "commander";
import { hubSocketPath } from "../../client/connect.js";
import { socketOption } from "../arguments.js";
import type { CommandContext } from "../command-context.js";
import type { HeldObject, HubStatus } from "../join-hub.js";
import { absentHubSentence, describeAbsentHub, tryJoinHub } from "../join-hub.js";
import { alignRows } from "../terminal/table.js";
import { ageWords, idleWords, plural, sizeWords, userWords } from "../terminal/words.js";
import { processWords } from "../top/top-words.js";
import { limitWords } from "./hub-check-config.js";

/** Processes that the line about objects without a name has room for. */
const HOLDERS_NAMED = 5;

interface StatusOptions {
  readonly socket?: string;
  readonly json?: boolean;
}

export function addHubStatus(hub: Command, context: CommandContext): void {
  hub
    .command("status")
    .description("print whether a hub runs, and what it keeps")
    .addOption(socketOption())
    .option("--json", "print JSON; its field `running` is false if no hub runs")
    .addHelpText(
      "after",
      "\nExits with 1 if no hub runs.\n\nExample:\n  $ cuda-ipc hub status --json",
    )
    .action((options: StatusOptions) => printStatus(options, context));
}

async function printStatus(options: StatusOptions, context: CommandContext): Promise<void> {
  const { terminal, signal } = context;
  await using hub = await tryJoinHub(context, "hub status", { socket: options.socket });
  if (hub === undefined) {
    context.exitCode = 1;
    if (options.json)
      return terminal.json({ running: false, socket: hubSocketPath(options.socket) });
    const absent = describeAbsentHub(options.socket);
    const next = absent.startable ? " One starts when a process needs it." : "";
    return terminal.line(`${absentHubSentence(absent)}${next}`);
  }
  const status = await hub.status({ signal });
  // Without this command, which is a client, too.
  const counted = { ...status, clients: status.clients - 1 };
  if (options.json) return terminal.json({ running: true, ...counted });
  const all = status.nameless.objects === 0 ? [] : await hub.list({ all: true, signal });
  const nameless = all.filter((object) => object.nameless);
  for (const line of alignRows(statusRows(counted, nameless))) terminal.line(line);
}

function statusRows(status: HubStatus, nameless: readonly HeldObject[]): string[][] {
  const idle = status.idleMs === null ? "stays until it is stopped" : idleWords(status.idleMs);
  return [
    [
      "hub",
      `process ${status.pid}, version ${status.version}, ` +
        `up ${ageWords(Date.now() - status.startedAtMs)}, ${idle}`,
    ],
    ["socket", status.socket],
    ["keeper", keeperWords(status)],
    ...(status.metrics === null ? [] : [["metrics", status.metrics]]),
    ...status.troubles.map((trouble) => ["trouble", trouble]),
    ["clients", `${status.clients} (without this command)${detachedWords(status)}`],
    [
      "objects",
      `${status.objects}, ${status.pinned} of them pinned; ${plural(status.leases, "lease")}`,
    ],
    ...namelessRows(status, nameless),
    ...withoutMemoryRows(status),
    ...lostRows(status),
    ["waiting", plural(status.waitingOpens, "open")],
    [
      "memory",
      `${sizeWords(status.hostBytes)} on the host, ${sizeWords(status.deviceBytes)} on GPUs`,
    ],
    ...status.limits.map(limitRow),
    ...userRows(status),
  ];
}

/** Clients that are not connected although their process still holds something. */
function detachedWords({ detached }: HubStatus): string {
  return detached === 0 ? "" : `, and ${detached} not connected, but holding something`;
}

/** @param found those that this user may see */
function namelessRows({ nameless }: HubStatus, found: readonly HeldObject[]): string[][] {
  const { objects, hostBytes, deviceBytes } = nameless;
  if (objects === 0) return [];
  const bytes = `${sizeWords(hostBytes)} on the host, ${sizeWords(deviceBytes)} on GPUs`;
  const holders = found.flatMap((object) => object.holders ?? []);
  const held = holders.length === 0 ? "" : `, held by ${firstOf(holders.map(processWords))}`;
  return [["", `${objects} without a name (see ls --all): ${bytes}${held}`]];
}

/** Each text once, the most frequent first. */
function firstOf(texts: readonly string[]): string {
  const counts = new Map<string, number>();
  for (const text of texts) counts.set(text, (counts.get(text) ?? 0) + 1);
  const names = [...counts].sort(([, one], [, other]) => other - one).map(([text]) => text);
  const more = names.length - HOLDERS_NAMED;
  return [...names.slice(0, HOLDERS_NAMED), ...(more > 0 ? [`${more} more`] : [])].join(", ");
}

function withoutMemoryRows({ withoutMemory }: HubStatus): string[][] {
  return withoutMemory === 0
    ? []
    : [["", `${withoutMemory} without memory until a process that holds it reconnects`]];
}

function keeperWords({ keeper }: HubStatus): string {
  if (keeper === null) return "none: only a service manager could start the next hub";
  const pending =
    keeper.pending === 0 ? "" : `; ${plural(keeper.pending, "change")} not sent to it yet`;
  const kept = plural(keeper.descriptors, "descriptor");
  return `process ${keeper.pid}, keeps ${kept} for the next hub${pending}`;
}

function lostRows({ lost }: HubStatus): string[][] {
  return lost.map(({ name, byteLength, device, ownerPid, ownerUid, lostAtMs }, index) => {
    const what = `"${name}", ${sizeWords(byteLength)} on ${device}`;
    const made = `created by process ${ownerPid} of ${userWords(ownerUid)}`;
    return [index === 0 ? "lost" : "", `${what}, ${made}, ${ageWords(Date.now() - lostAtMs)} ago`];
  });
}

const ownerWords = { hub: "the hub", user: "you", client: "each client" } as const;

/** Usage of the client's limits is left out, because that client is this command. */
function limitRow(
  { of, resource, limit, used }: HubStatus["limits"][number],
  index: number,
): string[] {
  const most = limitWords(resource, limit);
  const found =
    used === null || of === "client" ? most : `${limitWords(resource, used)} of ${most}`;
  return [index === 0 ? "limits" : "", `${ownerWords[of]}: ${resource} ${found}`];
}

/** Empty if this user is the only one. */
function userRows({ users, usersLeftOut }: HubStatus): string[][] {
  const others = users.some(({ uid }) => uid !== process.geteuid?.());
  if (!others) return [];
  const rows = users.map((user, index) => {
    const onHost = `${sizeWords(user.hostBytes)} on the host`;
    const bytes = `${onHost}, ${sizeWords(user.deviceBytes)} on GPUs`;
    const counts = [
      plural(user.clients, "client"),
      plural(user.objects, "object"),
      plural(user.leases, "lease"),
    ];
    return [index === 0 ? "users" : "", `${userWords(user.uid)}: ${counts.join(", ")}, ${bytes}`];
  });
  if (usersLeftOut > 0) rows.push(["", `and ${usersLeftOut} more`]);
  return rows;
}
