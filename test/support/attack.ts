/**
 * One user attacks a hub (test/process/hub/actors/attacker.ts) while others use it. Needs root, to
 * run as several users.
 */
import { Actor } from "./actor.js";
import { skipFuse } from "./waiting-fds.js";

export const attackUsers = {
  hub: { uid: 12_340, gid: 12_340 },
  victim: { uid: 12_341, gid: 12_341 },
  attacker: { uid: 12_342, gid: 12_342 },
  /** A user that the hub does not serve. */
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
  "restless",
  "workers",
  "bells",
  "holes",
  "longer",
  "locks",
  "unreadable",
  "punching",
] as const;

/**
 * Attacks that take what all processes of the machine share. Tests run side by side, so they leave
 * these out.
 */
export const machineWideKinds = ["aio"] as const;

/** "computing" is not an attack but the baseline for the comparison. */
export type AttackKind =
  | (typeof attackKinds)[number]
  | (typeof machineWideKinds)[number]
  | "computing";

/** Why this machine cannot run the attack; false if it can. */
export function skipAttack(kind: AttackKind): string | false {
  return kind === "unreadable" && skipFuse;
}

/** The names of channels that "restless" creates for all. */
export const restlessChannels: readonly string[] = numbered("restless");

/** The services whose workers "workers" pretends to be. */
export const soakServices: readonly string[] = numbered("soak-service");

function numbered(name: string): string[] {
  return Array.from({ length: 8 }, (_, number) => `${name}-${number}`);
}

/**
 * Starts an attacker. It reports "here" once the attack runs.
 * @param own a name that no other attacker uses
 */
export function startAttacker(
  socket: string,
  kind: AttackKind,
  own: string,
  hubUid: number,
): Actor {
  if (kind === "unreadable") {
    const args = [String(attackUsers.attacker.uid), socket];
    return new Actor(new URL("../../../test/support/unreadable.py", import.meta.url), { args });
  }
  return new Actor(new URL("../process/hub/actors/attacker.js", import.meta.url), {
    args: [socket, kind, own],
    user: kind.startsWith("unserved") ? attackUsers.unserved : attackUsers.attacker,
    env: { CUDA_IPC_HUB_UID: String(hubUid) },
  });
}

/**
 * Starts a victim. It reports "here". When it is told to go on, it reports the duration of each
 * round and its failures.
 */
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
