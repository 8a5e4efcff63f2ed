/** The options of `hub serve` that say whom a hub serves and how much each may have, as fields of its configuration. */
import { type Command, InvalidArgumentError } from "commander";
import { CudaIpcError } from "../base/errors.js";
import { accountNames } from "../hub/config-file.js";
import { checkHubConfig, type HubConfig, isQuotaField, NO_CONFIG, overlay } from "../hub/hub-config.js";

export interface PolicyOptions {
  readonly config?: string;
  readonly allowUsers?: HubConfig;
  readonly allowGroups?: HubConfig;
  readonly limit?: HubConfig;
}

export function addPolicyOptions(command: Command): Command {
  return command
    .option(
      "--config <file>",
      "the hub's configuration (default: cuda-ipc/hub.json in your ~/.config; see docs/reference.md)",
    )
    .option("--allow-users <users>", 'serve these users too, by name or number (a,b), or "all"', (text) =>
      fieldsOf({ users: text === "all" ? text : text.split(",") }),
    )
    .option("--allow-groups <groups>", "serve the members of these groups too", (text) =>
      fieldsOf({ groups: text.split(",") }),
    )
    .option("--limit <limit>", "a limit, as user.hostBytes=8GiB or client.objects=100; may be repeated", parseLimit);
}

/** What the options set; it goes before what the file says. */
export function policyFields({ allowUsers, allowGroups, limit }: PolicyOptions): HubConfig {
  return [allowUsers, allowGroups, limit].reduce<HubConfig>(
    (all, fields) => (fields === undefined ? all : overlay(all, fields)),
    NO_CONFIG,
  );
}

function parseLimit(text: string, earlier: HubConfig = NO_CONFIG): HubConfig {
  const found = /^(hub|user|client)\.(\w+)=(.+)$/.exec(text);
  const [, level = "", resource = "", value = ""] = found ?? [];
  if (!isQuotaField(resource)) {
    throw new InvalidArgumentError(
      "Wanted hub, user or client, a dot, a limit's name, = and a value: user.objects=100.",
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
