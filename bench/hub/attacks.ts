/**
 * One user of a hub shares, opens, checks and gives back arrays while several processes of another user attack the hub, in one way after
 * the other. Needs root, to be three users.
 */
import { Actor } from "../../test/support/actor.js";
import { TestHub } from "../../test/support/test-hub.js";
import type { Row } from "../measure.js";

export interface AttacksOptions {
  readonly attackers: number;
  /** How often the other user does all of it, under each attack. */
  readonly cycles: number;
  readonly kinds: readonly string[];
}

const HUB = { uid: 12_340, gid: 12_340 };
const VICTIM = { uid: 12_341, gid: 12_341 };
const ATTACKER = { uid: 12_342, gid: 12_342 };
const UNSERVED = { uid: 12_343, gid: 12_343 };

const P99_GOAL_MS = 20;
const PAUSE_GOAL_MS = 100;
const ACTORS = new URL("../../test/process/hub/actors/", import.meta.url);

const attackKinds = [
  "none",
  "storm",
  "deaf",
  "unread",
  "list",
  "status",
  "leases",
  "endings",
  "churn",
  "failing",
  "waiting",
  "connects",
  "unserved",
  "garbage",
] as const;

const FULL_SCALE: AttacksOptions = { attackers: 3, cycles: 500, kinds: attackKinds };

export async function attacks(options: AttacksOptions = FULL_SCALE): Promise<Row[]> {
  if (process.geteuid?.() !== 0) throw new Error("Only root can be several users");
  const rows: Row[] = [];
  for (const kind of options.kinds) rows.push(...(await under(kind, options)));
  return rows;
}

async function under(kind: string, { attackers, cycles }: AttacksOptions): Promise<Row[]> {
  const users = [VICTIM.uid, ATTACKER.uid];
  await using hub = await TestHub.start({ user: HUB, config: { users } });
  const env = { CUDA_IPC_HUB_UID: String(HUB.uid) };
  const user = kind === "unserved" ? UNSERVED : ATTACKER;
  const victimArgs = [hub.socket, String(cycles), "victim"];
  await using victim = new Actor(new URL("victim.js", ACTORS), { args: victimArgs, user: VICTIM, env });
  await victim.says();
  const all = Array.from({ length: kind === "none" ? 0 : attackers }, (_, index) => {
    return new Actor(new URL("attacker.js", ACTORS), { args: [hub.socket, kind, `attacker-${index}`], user, env });
  });
  try {
    for (const attacker of all) await attacker.says();
    victim.goOn();
    const { milliseconds, errors } = (await victim.says()) as { milliseconds: number[]; errors: string[] };
    return rowsOf(kind === "none" ? "no attack" : `${attackers} x ${kind}`, milliseconds, errors);
  } finally {
    for (const attacker of all) await attacker[Symbol.asyncDispose]();
  }
}

function rowsOf(what: string, milliseconds: readonly number[], errors: readonly string[]): Row[] {
  const sorted = Float64Array.from(milliseconds).sort();
  const at = (share: number) => sorted[Math.floor((sorted.length - 1) * share)] ?? Number.NaN;
  const [p50, p99, longest] = [at(0.5), at(0.99), at(1)];
  return [
    { what: `${what}: share, open, check, give back, p50`, value: p50, unit: "ms" },
    { what: `${what}: p99`, value: p99, unit: "ms", goal: `under ${P99_GOAL_MS} ms`, met: p99 < P99_GOAL_MS },
    {
      what: `${what}: longest`,
      value: longest,
      unit: "ms",
      goal: `under ${PAUSE_GOAL_MS} ms`,
      met: longest < PAUSE_GOAL_MS,
    },
    { what: `${what}: errors`, value: errors.length, unit: errors[0] ?? "", goal: "none", met: errors.length === 0 },
  ];
}
