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
  machineWideKinds,
  skipAttack,
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

export interface Attacks {
  readonly socket: string;
  readonly random: Random;
  /** Also those that take what all processes of the machine share. */
  readonly machineWide: boolean;
  readonly fault: (fault: string) => void;
  /** The attacks under way, for the words of faults. */
  readonly running: AttackKind[];
}

/** @returns the number of attacks of each kind, including those that the hub ended */
export async function attackUntil(over: AbortSignal, options: Attacks): Promise<Counts> {
  const { random, machineWide } = options;
  const all: AttackKind[] = [...attackKinds, ...(machineWide ? machineWideKinds : [])];
  const kinds = all.filter((kind) => skipAttack(kind) === false);
  const counts: Counts = {};
  let begun = 0;
  const place = async () => {
    while (!over.aborted) {
      const kind = random.pick(kinds);
      begun += 1;
      const order = { kind, own: `attacker-${begun}`, lifeMs: random.between(...LIFE_MS) };
      if (await attackOnce(order, over, options)) addCounts(counts, { [kind]: 1 });
      await pause(REST_MS, over);
    }
  };
  await Promise.all(Array.from({ length: AT_A_TIME }, place));
  return counts;
}

interface AttackOrder {
  readonly kind: AttackKind;
  readonly own: string;
  readonly lifeMs: number;
}

/** Returns whether it attacked. If the hub is killed first, the attacker may end before that. */
async function attackOnce(
  { kind, own, lifeMs }: AttackOrder,
  over: AbortSignal,
  { socket, fault, running }: Attacks,
): Promise<boolean> {
  await using attacker = startAttacker(socket, kind, own, 0);
  try {
    await attacker.says();
  } catch {
    return false;
  }
  // Says something more only if the hub did what it must not do.
  const more = attacker.says().then(
    (said) => fault(`attacker by ${kind}: ${JSON.stringify(said)}`),
    () => {},
  );
  running.push(kind);
  await Promise.race([pause(lifeMs, over), more]);
  running.splice(running.indexOf(kind), 1);
  return true;
}
