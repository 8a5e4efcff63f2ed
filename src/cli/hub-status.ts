/** `cuda-ipc hub status`: a look at the hub, which never starts one. */
import type { Command } from "commander";
import { hubSocketPath } from "../client/connect.js";
import { absentHubSentence, describeAbsentHub } from "./absent-hub.js";
import type { CommandContext } from "./command-context.js";
import { limitWords } from "./hub-check-config.js";
import type { HubStatus } from "./hub-facts.js";
import { tryJoinHub } from "./join-hub.js";
import { alignRows } from "./table.js";
import { ageWords, idleWords, plural, sizeWords, userWords } from "./words.js";

interface StatusOptions {
  readonly socket?: string;
  readonly json?: boolean;
}

export function addHubStatus(hub: Command, context: CommandContext): void {
  hub
    .command("status")
    .description("say whether a hub runs and what it keeps")
    .option("--socket <path>", "the hub's socket (default: CUDA_IPC_SOCKET, else one in your runtime folder)")
    .option("--json", "print JSON; `running` says whether there is a hub")
    .addHelpText("after", "\nExample:\n  $ cuda-ipc hub status --json")
    .action((options: StatusOptions) => printStatus(options, context));
}

async function printStatus(options: StatusOptions, context: CommandContext): Promise<void> {
  const { terminal, signal } = context;
  await using hub = await tryJoinHub(context, "hub status", { socket: options.socket });
  if (hub === undefined) {
    if (options.json) return terminal.json({ running: false, socket: hubSocketPath(options.socket) });
    const absent = describeAbsentHub(options.socket);
    const next = absent.startable ? " One is started when it is needed." : "";
    return terminal.line(`${absentHubSentence(absent)}${next}`);
  }
  const status = await hub.status({ signal });
  // WHY less one: this command is a client too.
  const counted = { ...status, clients: status.clients - 1 };
  if (options.json) return terminal.json({ running: true, ...counted });
  for (const line of alignRows(statusRows(counted))) terminal.line(line);
}

function statusRows(status: HubStatus): string[][] {
  const idle = status.idleMs === null ? "stays until it is stopped" : idleWords(status.idleMs);
  return [
    [
      "hub",
      `process ${status.pid}, version ${status.version}, up ${ageWords(Date.now() - status.startedAtMs)}, ${idle}`,
    ],
    ["socket", status.socket],
    ["keeper", keeperWords(status)],
    ...status.troubles.map((trouble) => ["trouble", trouble]),
    ["clients", `${status.clients} (besides this command)${detachedWords(status)}`],
    ["objects", `${status.objects}, of which ${status.pinned} pinned; ${plural(status.leases, "lease")}`],
    ...withoutMemoryRows(status),
    ...lostRows(status),
    ["waiting", plural(status.waitingOpens, "open")],
    ["memory", `${sizeWords(status.hostBytes)} on the host, ${sizeWords(status.deviceBytes)} on GPUs`],
    ...status.limits.map(limitRow),
    ...userRows(status),
  ];
}

/** Nothing where all who hold something are connected. */
function detachedWords({ detached }: HubStatus): string {
  return detached === 0 ? "" : `, and ${detached} without a connection whose process still holds something`;
}

function withoutMemoryRows({ withoutMemory }: HubStatus): string[][] {
  return withoutMemory === 0 ? [] : [["", `${withoutMemory} without memory, until a process that holds it comes back`]];
}

function keeperWords({ keeper }: HubStatus): string {
  if (keeper === null) return "none: a service manager or nobody starts the next hub";
  const pending = keeper.pending === 0 ? "" : `; ${plural(keeper.pending, "change")} still to be told`;
  return `process ${keeper.pid}, has ${plural(keeper.descriptors, "descriptor")} for the next hub${pending}`;
}

function lostRows({ lost }: HubStatus): string[][] {
  return lost.map(({ name, byteLength, device, ownerPid, ownerUid, lostAtMs }, index) => {
    const what = `"${name}", ${sizeWords(byteLength)} on ${device}`;
    const made = `made by process ${ownerPid} of ${userWords(ownerUid)}`;
    return [index === 0 ? "lost" : "", `${what}, ${made}, ${ageWords(Date.now() - lostAtMs)} ago`];
  });
}

const ownerWords = { hub: "the hub", user: "you", client: "each client" } as const;

/** WHY without what is used of a client's limits: the client is this command. */
function limitRow({ of, resource, limit, used }: HubStatus["limits"][number], index: number): string[] {
  const most = limitWords(resource, limit);
  const found = used === null || of === "client" ? most : `${limitWords(resource, used)} of ${most}`;
  return [index === 0 ? "limits" : "", `${ownerWords[of]}: ${resource} ${found}`];
}

/** Nothing where all is this user's. */
function userRows({ users, usersLeftOut }: HubStatus): string[][] {
  const others = users.some(({ uid }) => uid !== process.geteuid?.());
  if (!others) return [];
  const rows = users.map((user, index) => {
    const bytes = `${sizeWords(user.hostBytes)} on the host, ${sizeWords(user.deviceBytes)} on GPUs`;
    const counts = [plural(user.clients, "client"), plural(user.objects, "object"), plural(user.leases, "lease")];
    return [index === 0 ? "users" : "", `${userWords(user.uid)}: ${counts.join(", ")}, ${bytes}`];
  });
  if (usersLeftOut > 0) rows.push(["", `and ${usersLeftOut} more`]);
  return rows;
}
