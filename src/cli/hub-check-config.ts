/** `cuda-ipc hub check-config FILE`: says what a hub would take from this file, or what is wrong with it. */
import type { Command } from "commander";
import { formatBytes } from "../base/bytes.js";
import { hubSettings } from "../hub/config-file.js";
import type { HubPolicy } from "../hub/policy.js";
import { type Quota, quotaFields } from "../hub/quota.js";
import type { CommandContext } from "./command-context.js";
import { alignRows } from "./table.js";
import { idleWords } from "./words.js";

export function addHubCheckConfig(hub: Command, context: CommandContext): void {
  hub
    .command("check-config")
    .description("check a configuration file of a hub, and say what it sets")
    .argument("<file>", "the file; it must be of root or of you, and writable by nobody else")
    .addHelpText("after", "\nExample:\n  $ cuda-ipc hub check-config /etc/cuda-ipc/hub.json")
    .action((file: string) => checkConfig(file, context));
}

function checkConfig(file: string, { terminal }: CommandContext): void {
  const { idleMs, socket, policy } = hubSettings(file);
  const rows = [
    ["file", file],
    ["socket", socket ?? "as the command says"],
    ["idle", Number.isFinite(idleMs) ? idleWords(idleMs) : "stays until it is stopped"],
    ["serves", servedWords(policy)],
    ...limitRows(policy),
  ];
  for (const line of alignRows(rows)) terminal.line(line);
}

/** `user 0; and users 1000, 1001; and group 44` */
export function servedWords({ uid, users, groups }: HubPolicy): string {
  if (users === "all") return "all users who can reach its socket";
  const parts = [`user ${uid}`];
  if (users.size > 0) parts.push(`users ${[...users].join(", ")}`);
  if (groups.size > 0) parts.push(`members of groups ${[...groups].join(", ")}`);
  return parts.join("; ");
}

function limitRows({ limits, userLimits }: HubPolicy): string[][] {
  const rows = (["hub", "user", "client"] as const).map((level) => [`limits.${level}`, quotaWords(limits[level])]);
  for (const [uid, quota] of userLimits) rows.push([`userLimits.${uid}`, quotaWords(quota)]);
  return rows;
}

function quotaWords(quota: Quota): string {
  const set = quotaFields.filter((name) => Number.isFinite(quota[name]));
  return set.map((name) => `${name} ${limitWords(name, quota[name])}`).join(", ") || "none";
}

/** A size for bytes, a number for all else. */
export function limitWords(resource: string, value: number): string {
  return resource.endsWith("Bytes") ? formatBytes(value) : String(value);
}
