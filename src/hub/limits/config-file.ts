/**
 * Finds and reads the hub's configuration file, which only root and the hub's user may write.
 * Combines it with the flags.
 */
import { existsSync } from "node:fs";
import { homedir } from "node:os";
import { isAbsolute, join } from "node:path";
import { CudaIpcError, messageOf } from "../../base/errors.js";
import { defaults, limits } from "../../base/limits.js";
import { defaultLogSettings, type LogSettings } from "../../base/log-events.js";
import { groupIds, userIds } from "../../os/accounts.js";
import { openFilesMax } from "../../os/open-file.js";
import { ownUid, ROOT } from "../../os/runtime-folder.js";
import { fromNodeError } from "../../os/system-error.js";
import { readTrustedFile } from "../../os/trusted-file.js";
import {
  type AccountNames,
  checkHubConfig,
  type HubConfig,
  NO_CONFIG,
  overlay,
  policyOf,
} from "./hub-config.js";
import type { HubPolicy } from "./policy.js";
import { defaultQuotasOf } from "./policy.js";

const SYSTEM_FILE = "/etc/cuda-ipc/hub.json";

/** Everything that a hub starts with. */
export interface HubSettings {
  /** The file that was read. Undefined if there was none. */
  readonly file: string | undefined;
  /** The socket path of the file, unless the environment says another. */
  readonly socket: string | undefined;
  /** `Infinity` means that the hub stays. */
  readonly idleMs: number;
  readonly policy: HubPolicy;
  readonly log: LogSettings;
}

export function accountNames(): AccountNames {
  return { users: userIds(), groups: groupIds() };
}

/**
 * The default file: `cuda-ipc/hub.json` in `XDG_CONFIG_HOME` or `~/.config`. For root also
 * /etc/cuda-ipc/hub.json, if the first does not exist. Undefined if there is none.
 */
export function defaultConfigPath(env: NodeJS.ProcessEnv = process.env): string | undefined {
  const named = env.XDG_CONFIG_HOME;
  // The XDG specification forbids relative paths.
  const folder = named !== undefined && isAbsolute(named) ? named : join(homedir(), ".config");
  const paths = [join(folder, "cuda-ipc", "hub.json"), ...(ownUid() === ROOT ? [SYSTEM_FILE] : [])];
  return paths.find((path) => existsSync(path));
}

/**
 * @param path the file to read. Default: see `defaultConfigPath`.
 * @param flags fields that override those of the file
 * @throws INVALID_FILE, PERMISSION_DENIED
 */
export function hubSettings(path: string | undefined, flags: HubConfig = NO_CONFIG): HubSettings {
  const file = path ?? defaultConfigPath();
  const ofFile = file === undefined ? NO_CONFIG : readHubConfig(file);
  const config = overlay(overlay(ofFile, configOfEnvironment()), flags);
  // The clients of this environment look for the hub there.
  const socket = process.env.CUDA_IPC_SOCKET ? undefined : config.socket;
  const policy = policyOf(ownUid(), config, defaultQuotasOf(openFilesMax()));
  const log = {
    level: config.logLevel ?? defaultLogSettings.level,
    format: config.logFormat ?? defaultLogSettings.format,
  };
  return { file, socket, idleMs: config.idleMs ?? defaults.hubIdleMs, policy, log };
}

/** For hubs that `connect()` starts, which get no flags. */
function configOfEnvironment(env: NodeJS.ProcessEnv = process.env): HubConfig {
  const { CUDA_IPC_LOG_LEVEL: level, CUDA_IPC_LOG_FORMAT: format } = env;
  const fields = { ...(level && { logLevel: level }), ...(format && { logFormat: format }) };
  const source = "the environment (CUDA_IPC_LOG_LEVEL, CUDA_IPC_LOG_FORMAT)";
  return checkHubConfig(source, fields, accountNames());
}

/** @throws INVALID_FILE, PERMISSION_DENIED */
export function readHubConfig(path: string, names: AccountNames = accountNames()): HubConfig {
  const source = `the configuration ${path}`;
  const refuse = (found: string, cause?: unknown) =>
    new CudaIpcError("INVALID_FILE", `Cannot use ${source}: ${found}`, { cause });
  const text = readTrusted(path, source, refuse);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw refuse(`it is not JSON (${messageOf(error)})`, error);
  }
  return checkHubConfig(source, value, names);
}

function readTrusted(
  path: string,
  source: string,
  refuse: (found: string) => CudaIpcError,
): string {
  const max = limits.configFileBytesMax;
  let bytes: Buffer;
  try {
    bytes = readTrustedFile(path, max + 1, ({ found }) => refuse(found));
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT")
      throw refuse("there is no such file");
    throw fromNodeError(`use ${source}`, error);
  }
  if (bytes.byteLength > max)
    throw refuse(`it has more than ${max} bytes, the limit (configFileBytesMax)`);
  return bytes.toString("utf8");
}
