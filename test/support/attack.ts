/**
 * One user attacks a hub (test/process/hub/actors/attacker.ts) while others use it. Needs root, for
 * several users.
 */
import { Actor } from "./actor.js";

export const attackUsers = {
  hub: { uid: 12_340, gid: 12_340 },
  victim: { uid: 12_341, gid: 12_341 },
  attacker: { uid: 12_342, gid: 12_342 },
  /** Whom the hub does not serve. */
  unserved: { uid: 12_343, gid: 12_343 },
} as const;

export const attackKinds = [
  "storm",
  "deaf",
  "unread",
  "list",
  "status",
  "leases",
  "endings",
  "churn",
  "failing",
  "crowded",
  "waiting",
  "connects",
  "lingering",
  "unserved",
  "unserved, lingering",
  "garbage",
] as const;

/** "computing" is none: it is what the attacks are compared with. */
export type AttackKind = (typeof attackKinds)[number] | "computing";

/** @param own a name that no other attacker has. Says "here" once the attack goes on */
export function startAttacker(
  socket: string,
  kind: AttackKind,
  own: string,
  hubUid: number,
): Actor {
  return new Actor(new URL("../process/hub/actors/attacker.js", import.meta.url), {
    args: [socket, kind, own],
    user: kind.startsWith("unserved") ? attackUsers.unserved : attackUsers.attacker,
    env: { CUDA_IPC_HUB_UID: String(hubUid) },
  });
}

/** Says "here", and once it is told to go on, how long each of its rounds took and what failed. */
export function startVictim(socket: string, rounds: number, hubUid: number): Actor {
  return new Actor(new URL("../process/hub/actors/victim.js", import.meta.url), {
    args: [socket, String(rounds), "victim"],
    user: attackUsers.victim,
    env: { CUDA_IPC_HUB_UID: String(hubUid) },
  });
}

export interface Suffered {
  readonly milliseconds: readonly number[];
  readonly errors: readonly string[];
}
