/** The answer of a hub, or the reason why it does not answer. */
import { type ErrorCode, isErrorCode } from "../../base/error-codes.js";
import { CudaIpcError } from "../../base/errors.js";
import { lockHolder } from "../../os/file-lock.js";
import { closeFds } from "../../os/foreign-fd.js";
import type { PacketChannel } from "../../os/packet-channel.js";
import { processState } from "../../os/process-identity.js";
import type { Packet } from "../../os/seqpacket.js";
import { inFlightWords } from "../../os/socket-message.js";
import { decodeReply } from "../../wire/codec.js";
import type { Request } from "../../wire/messages.js";

/**
 * The hub's last words: it was stopped on purpose and is not to be started again, or somebody has
 * disconnected this client.
 */
export class Farewell extends CudaIpcError {}

const FAREWELLS: readonly string[] = ["HUB_GONE", "DISCONNECTED"] satisfies ErrorCode[];

export interface Reply {
  /** The number of the request. */
  readonly id: number;
  readonly error?: CudaIpcError;
  /** Not checked yet. */
  readonly result?: unknown;
}

/** Closes the packet's descriptors unless there is a result. @throws Farewell, INVALID_MESSAGE */
export function readReply({ bytes, fds }: Packet): Reply {
  let isTaken = false;
  try {
    const reply = decodeReply(bytes);
    isTaken = reply.ok;
    if (reply.ok) return { id: reply.id, result: reply.result };
    const { code, message } = reply.error;
    const known = isErrorCode(code) ? code : "SYSTEM_ERROR";
    if (reply.id === 0 && FAREWELLS.includes(known)) throw new Farewell(known, message);
    return { id: reply.id, error: new CudaIpcError(known, message) };
  } finally {
    if (!isTaken) closeFds(fds);
  }
}

/** The lease in a result, even if the rest cannot be read: a later hub may grant what is new. */
export function leaseOf(result: unknown): number | undefined {
  const { lease } = (result ?? {}) as { lease?: unknown };
  return Number.isSafeInteger(lease) && Number(lease) > 0 ? Number(lease) : undefined;
}

interface SilentHub {
  /** As the kernel says of the socket; 0 for a process of another PID namespace. */
  readonly hubPid: number;
  readonly socketPath: string;
  readonly channel: Pick<PacketChannel, "isInFlightLimited">;
}

export function hubSilence({ hubPid, socketPath, channel }: SilentHub, op: Request["op"]): string {
  const state = hubPid === 0 ? undefined : processState(hubPid);
  // The errors of `connect` begin with it.
  const where = op === "hello" ? "" : `; the hub is at ${socketPath}`;
  if (channel.isInFlightLimited) return `${inFlightWords()}${where}`;
  // The number stays unsaid: the socket may be one that an earlier hub listened at.
  if (state === undefined) {
    const keeper = hubPid === 0 ? undefined : silentKeeper(socketPath);
    return `${keeper ?? "the hub does not answer"}${where}`;
  }
  return `the hub (process ${hubPid}) does not answer: it ${state}${where}`;
}

/**
 * Says that the keeper starts no hub, although the last one has ended. Undefined if the last hub
 * runs, or is unknown. The keeper has its lock, which says which process it was.
 */
export function silentKeeper(socketPath: string): string | undefined {
  const pid = lockHolder(`${socketPath}.lock`)?.pid;
  if (pid === undefined || processState(pid) !== undefined) return undefined;
  return (
    `the last hub (process ${pid}) has ended, and its keeper, which has the lock, ` +
    "starts no other one: look whether the keeper is stopped"
  );
}
