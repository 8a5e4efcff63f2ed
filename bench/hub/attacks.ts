/**
 * One user shares, opens, checks and closes arrays while several processes of another user attack
 * the hub, one kind of attack after the other. "computing" is the control: its processes send
 * nothing and keep the processors busy. Needs root, to act as three users.
 */
import { connect } from "../../src/client/connect.js";
import type { Actor } from "../../test/support/actor.js";
import {
  type AttackKind,
  attackKinds,
  attackUsers,
  machineWideKinds,
  type Suffered,
  skipAttack,
  startAttacker,
  startVictim,
} from "../../test/support/attack.js";
import { TestHub } from "../../test/support/test-hub.js";
import type { Row } from "../measure.js";

export interface AttacksOptions {
  /** How many processes attack at a time. Each number is one run. */
  readonly attackers: readonly number[];
  /** How often the other user repeats its cycle under each attack. */
  readonly cycles: number;
  readonly kinds: readonly AttackKind[];
}

/** The attacks on the accept queue, where new clients wait. */
const atEntrance: ReadonlySet<AttackKind> = new Set([
  "connects",
  "lingering",
  "unserved",
  "unserved, lingering",
]);
const NEWCOMERS = 100;
const P99_GOAL_MS = 20;
const PAUSE_GOAL_MS = 100;
const all: readonly AttackKind[] = ["computing", ...attackKinds, ...machineWideKinds];
const FULL_SCALE: AttacksOptions = {
  attackers: [3, 8],
  cycles: 500,
  kinds: all.filter((kind) => skipAttack(kind) === false),
};

export async function attacks({
  attackers,
  cycles,
  kinds,
}: AttacksOptions = FULL_SCALE): Promise<Row[]> {
  if (process.geteuid?.() !== 0) throw new Error("Only root can act as several users");
  const rows = rowsOf("no attack", await under(undefined, 0, cycles));
  for (const count of attackers) {
    for (const kind of kinds) {
      rows.push(...rowsOf(`${count} x ${kind}`, await under(kind, count, cycles)));
      if (atEntrance.has(kind)) rows.push(...(await newcomersUnder(kind, count)));
    }
  }
  return rows;
}

async function under(
  kind: AttackKind | undefined,
  count: number,
  cycles: number,
): Promise<Suffered> {
  const { hub: user, victim: victimUser, attacker } = attackUsers;
  await using hub = await TestHub.start({
    user,
    config: { users: [victimUser.uid, attacker.uid] },
  });
  await using victim = startVictim(hub.socket, cycles, user.uid);
  await victim.says();
  return await whileAttacked(hub.socket, kind, count, async () => {
    victim.goOn();
    return (await victim.says()) as Suffered;
  });
}

/** How long a client of another user takes to connect. */
async function newcomersUnder(kind: AttackKind, count: number): Promise<Row[]> {
  const { hub: user, attacker } = attackUsers;
  await using hub = await TestHub.start({ user, config: { users: [0, attacker.uid] } });
  const milliseconds = await whileAttacked(hub.socket, kind, count, async () => {
    const found: number[] = [];
    while (found.length < NEWCOMERS) {
      const startMs = performance.now();
      await using _client = await connect({ socket: hub.socket, hubUid: user.uid, start: false });
      found.push(performance.now() - startMs);
    }
    return found.sort((a, b) => a - b);
  });
  const at = (share: number) => milliseconds[Math.floor((NEWCOMERS - 1) * share)] ?? Number.NaN;
  return [
    { what: `${count} x ${kind}: another user connects, p50`, value: at(0.5), unit: "ms" },
    { what: `${count} x ${kind}: longest`, value: at(1), unit: "ms" },
  ];
}

async function whileAttacked<T>(
  socket: string,
  kind: AttackKind | undefined,
  count: number,
  work: () => Promise<T>,
): Promise<T> {
  const attackers: Actor[] = [];
  try {
    for (let index = 0; kind !== undefined && index < count; index += 1) {
      attackers.push(startAttacker(socket, kind, `attacker-${index}`, attackUsers.hub.uid));
    }
    for (const attacker of attackers) await attacker.says();
    return await work();
  } finally {
    for (const attacker of attackers) await attacker[Symbol.asyncDispose]();
  }
}

function rowsOf(what: string, { milliseconds, errors }: Suffered): Row[] {
  const sorted = Float64Array.from(milliseconds).sort();
  const at = (share: number) => sorted[Math.floor((sorted.length - 1) * share)] ?? Number.NaN;
  const [p50, p99, longest] = [at(0.5), at(0.99), at(1)];
  return [
    { what: `${what}: share, open, check, give back, p50`, value: p50, unit: "ms" },
    {
      what: `${what}: p99`,
      value: p99,
      unit: "ms",
      goal: `under ${P99_GOAL_MS} ms`,
      met: p99 < P99_GOAL_MS,
    },
    {
      what: `${what}: longest`,
      value: longest,
      unit: "ms",
      goal: `under ${PAUSE_GOAL_MS} ms`,
      met: longest < PAUSE_GOAL_MS,
    },
    {
      what: `${what}: errors`,
      value: errors.length,
      unit: errors[0] ?? "",
      goal: "none",
      met: errors.length === 0,
    },
  ];
}
