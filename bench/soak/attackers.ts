/**
 * Another user attacks the hub while the soak's clients work. One process follows the other, each
 * with one kind of attack.
 */
import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import {
  type AttackKind,
  attackKinds,
  attackUsers,
  startAttacker,
} from "../../test/support/attack.js";
import type { Random } from "../random.js";
import { pause } from "./pause.js";
import { addCounts, type Counts } from "./tally.js";

const AT_A_TIME = 2;
const LIFE_MS = [2000, 15_000] as const;
/** The hub frees what one attacker held before the next one begins. */
const REST_MS = 500;

/** Lets other users into the folder, and lets hubs started from here serve the attacker. */
export function letAttackersIn(folder: string): void {
  if (process.geteuid?.() !== 0) throw new Error("Only root can act as several users");
  chmodSync(folder, 0o755);
  const config = join(folder, "config");
  mkdirSync(join(config, "cuda-ipc"), { recursive: true });
  writeFileSync(
    join(config, "cuda-ipc", "hub.json"),
    JSON.stringify({ users: [attackUsers.attacker.uid] }),
  );
  process.env.XDG_CONFIG_HOME = config;
}

/** @returns the number of attacks of each kind, including those that the hub ended */
export async function attackUntil(
  over: AbortSignal,
  socket: string,
  random: Random,
): Promise<Counts> {
  const counts: Counts = {};
  let begun = 0;
  const place = async () => {
    while (!over.aborted) {
      const kind = attackKinds[random.below(attackKinds.length)] as AttackKind;
      begun += 1;
      if (await attackOnce(socket, kind, `attacker-${begun}`, random.between(...LIFE_MS), over)) {
        addCounts(counts, { [kind]: 1 });
      }
      await pause(REST_MS, over);
    }
  };
  await Promise.all(Array.from({ length: AT_A_TIME }, place));
  return counts;
}

/** Returns whether it attacked. If the hub is killed first, the attacker may end before that. */
async function attackOnce(
  socket: string,
  kind: AttackKind,
  own: string,
  lifeMs: number,
  over: AbortSignal,
): Promise<boolean> {
  await using attacker = startAttacker(socket, kind, own, 0);
  try {
    await attacker.says();
  } catch {
    return false;
  }
  await pause(lifeMs, over);
  return true;
}
