/** Joining the hub for a command: those that only look never start one. */
import { CudaIpcError, hasCode } from "../base/errors.js";
import { connect, hubSocketPath } from "../client/connect.js";
import type { Hub } from "../client/hub.js";
import { hubWithoutSocket } from "../client/reach-hub.js";
import { describeAbsentHub } from "./absent-hub.js";
import type { CommandContext } from "./command-context.js";

export interface JoinOptions {
  readonly device?: string | undefined;
  readonly socket?: string | undefined;
  /** Whether to go on at the next hub where this one ends by accident; true unless set. */
  readonly reconnect?: boolean | undefined;
}

/** The hub, started where none runs. Whoever joins closes it. */
export function joinOrStartHub(context: CommandContext, command: string, options: JoinOptions = {}): Promise<Hub> {
  return connect({ ...options, program: programName(command), signal: context.signal });
}

/** The hub that runs, or undefined where none does. */
export async function tryJoinHub(
  context: CommandContext,
  command: string,
  options: JoinOptions = {},
): Promise<Hub | undefined> {
  try {
    return await connect({ ...options, program: programName(command), signal: context.signal, start: false });
  } catch (error) {
    // WHY told apart: to say that none runs would be wrong.
    const isThere = hubWithoutSocket(hubSocketPath(options.socket)) !== undefined;
    if (hasCode(error, "HUB_UNAVAILABLE") && !isThere) return undefined;
    throw error;
  }
}

/**
 * The hub that runs, for a command about a name.
 * @throws NOT_FOUND where no hub runs: then nothing has a name
 */
export async function joinHubFor(
  context: CommandContext,
  command: string,
  name: string,
  options: JoinOptions = {},
): Promise<Hub> {
  const hub = await tryJoinHub(context, command, options);
  if (hub !== undefined) return hub;
  // WHY: a command of two words is no verb.
  const attempt = command.startsWith("channel ") ? "open" : command;
  throw new CudaIpcError(
    "NOT_FOUND",
    `Cannot ${attempt} "${name}": nothing is shared, for ${describeAbsentHub(options.socket).words}`,
  );
}

function programName(command: string): string {
  return `cuda-ipc ${command}`;
}
