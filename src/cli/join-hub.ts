/** How commands reach the hub, end it, and say that there is none. */
import { existsSync, statSync } from "node:fs";
import { CudaIpcError, hasCode } from "../base/errors.js";
import { type ConnectOptions, connect, hubSocketPath } from "../client/connect.js";
import { hubWithoutSocket, isStarting } from "../client/connection/reach-hub.js";
import type { Hub } from "../client/hub.js";
import type { Inspection } from "../client/hub-options.js";
import type { DeviceBuffer } from "../gpu/memory/device-buffer.js";
import type { CommandContext } from "./command-context.js";

export type ObjectSummary = Inspection["object"];
export type HeldObject = Awaited<ReturnType<Hub["list"]>>[number];
export type Descriptor = ObjectSummary["descriptor"];
export type HubStatus = Awaited<ReturnType<Hub["status"]>>;
export type Mechanism = DeviceBuffer["mechanism"];

export interface JoinOptions {
  readonly device?: string | undefined;
  readonly socket?: string | undefined;
  /** Whether to reconnect if the hub is killed. True by default. */
  readonly reconnect?: boolean | undefined;
}

/** Connects to the hub, and starts one if none runs. The caller closes the connection. */
export function joinOrStartHub(
  context: CommandContext,
  command: string,
  options: JoinOptions = {},
): Promise<Hub> {
  return connect(connectOptions(context, command, options));
}

/** Picks the options of `connect` from those of a command. */
function connectOptions(
  { signal }: CommandContext,
  command: string,
  { device, socket, reconnect }: JoinOptions,
): ConnectOptions {
  return { device, socket, reconnect, program: programName(command), signal };
}

/** Connects to the hub, or returns undefined if none runs. Never starts one. */
export async function tryJoinHub(
  context: CommandContext,
  command: string,
  options: JoinOptions = {},
): Promise<Hub | undefined> {
  try {
    const hub = await connect({ ...connectOptions(context, command, options), start: false });
    await tellWithoutSocket(hub, context);
    return hub;
  } catch (error) {
    // A hub may run although its socket was removed. Then "no hub runs" would be wrong.
    const isRunning = hubWithoutSocket(hubSocketPath(options.socket)) !== undefined;
    if (hasCode(error, "HUB_UNAVAILABLE") && !isRunning) return undefined;
    throw error;
  }
}

/** Says what happened to the socket of a hub that was found without one. */
async function tellWithoutSocket(hub: Hub, { terminal, signal }: CommandContext): Promise<void> {
  if (existsSync(hub.socketPath)) return;
  const { troubles } = await hub.status({ signal });
  for (const trouble of troubles) terminal.note(trouble);
}

/**
 * Connects to the hub for a command about a name. Never starts a hub.
 * @throws NOT_FOUND if no hub runs, because then no name exists
 */
export async function joinHubFor(
  context: CommandContext,
  command: string,
  name: string,
  options: JoinOptions = {},
): Promise<Hub> {
  const hub = await tryJoinHub(context, command, options);
  if (hub !== undefined) return hub;
  // "channel send" is not a verb.
  const attempt = command.startsWith("channel ") ? "open" : command;
  throw new CudaIpcError(
    "NOT_FOUND",
    `Cannot ${attempt} "${name}": nothing is shared, ` +
      `because ${describeAbsentHub(options.socket).words}`,
  );
}

/**
 * Ends the hub. Resolves when the hub has closed this connection, too.
 * @throws HUB_IN_USE
 */
export async function endHub(hub: Hub, options: { readonly force: boolean }): Promise<void> {
  const ended = new Promise<void>((resolve) => hub.onEnd(() => resolve()));
  await hub.stop(options);
  await ended;
}

export interface AbsentHub {
  /** Why there is no hub, as a clause: `no hub runs at /run/...`. */
  readonly words: string;
  /** Whether a hub could be started there. */
  readonly startable: boolean;
}

/**
 * Says why no hub answers at a socket, from what lies at its path.
 * Call it only after connecting has failed: a socket file alone does not show that its hub is dead.
 */
export function describeAbsentHub(socket: string | undefined): AbsentHub {
  const path = hubSocketPath(socket);
  const found = statSync(path, { throwIfNoEntry: false });
  if (found?.isSocket() !== false && isStarting(path)) {
    const words = `no hub listens at ${path} yet, but one is starting; try again in a moment`;
    return { words, startable: false };
  }
  if (found === undefined) return { words: `no hub runs at ${path}`, startable: true };
  if (!found.isSocket()) return { words: `the file at ${path} is not a socket`, startable: false };
  return {
    words: `the hub at ${path} was killed; the next hub restores what processes still hold`,
    startable: true,
  };
}

/** The same as a sentence, for commands about the hub itself. */
export function absentHubSentence({ words }: AbsentHub): string {
  return words.startsWith("no hub runs") ? `N${words.slice(1)}.` : `No hub runs: ${words}.`;
}

function programName(command: string): string {
  return `cuda-ipc ${command}`;
}
