/** `cuda-ipc hub check-config FILE`: prints what a configuration file sets, or what is wrong. */
import type { Command } from "commander";
import { formatBytes } from "../../base/bytes.js";
import { hubSettings } from "../../hub/limits/config-file.js";
import type { HubPolicy } from "../../hub/limits/policy.js";
import { type Quota, quotaFields } from "../../hub/limits/quota.js";
import type { CommandContext } from "../command-context.js";
import { alignRows } from "../terminal/table.js";
import { idleWords } from "../terminal/words.js";

export function addHubCheckConfig(hub: Command, context: CommandContext): void {
  hub
    .command("check-config")
    .description("check a hub's configuration file, and print what it sets")
    .argument("<file>", "the file; root or you must own it, and nobody else may write to it")
    .addHelpText("after", "\nExample:\n  $ cuda-ipc hub check-config /etc/cuda-ipc/hub.json")
    .action((file: string) => checkConfig(file, context));
}

function checkConfig(file: string, { terminal }: CommandContext): void {
  const { idleMs, socket, policy, log } = hubSettings(file);
  const rows = [
    ["file", file],
    ["socket", socket ?? "not set"],
    ["idle", Number.isFinite(idleMs) ? idleWords(idleMs) : "stays until it is stopped"],
    ["log", `${log.format}, level ${log.level}`],
    ["serves", servedWords(policy)],
    ...limitRows(policy),
  ];
  for (const line of alignRows(rows)) terminal.line(line);
}

/** `user 0; users 1000, 1001; members of groups 44` */
export function servedWords({ uid, users, groups }: HubPolicy): string {
  if (users === "all") return "all users that can reach its socket";
  const parts = [`user ${uid}`];
  if (users.size > 0) parts.push(`users ${[...users].join(", ")}`);
  if (groups.size > 0) parts.push(`members of groups ${[...groups].join(", ")}`);
  return parts.join("; ");
}

function limitRows({ limits, userLimits }: HubPolicy): string[][] {
  const rows = (["hub", "user", "client"] as const).map((level) => [
    `limits.${level}`,
    quotaWords(limits[level]),
  ]);
  for (const [uid, quota] of userLimits) rows.push([`userLimits.${uid}`, quotaWords(quota)]);
  return rows;
}

function quotaWords(quota: Quota): string {
  const set = quotaFields.filter((name) => Number.isFinite(quota[name]));
  return set.map((name) => `${name} ${limitWords(name, quota[name])}`).join(", ") || "none";
}

/** A size if the limit is in bytes, else a number. */
export function limitWords(resource: string, value: number): string {
  return resource.endsWith("Bytes") ? formatBytes(value) : String(value);
}
