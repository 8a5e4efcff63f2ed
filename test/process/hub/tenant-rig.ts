/** Processes of several users on one hub. */
import assert from "node:assert/strict";
import { Actor } from "../../support/actor.js";
import type { TestHub } from "../../support/test-hub.js";

export const HUB = { uid: 12_340, gid: 12_340 };
export const ALICE = { uid: 12_341, gid: 12_350 };
export const BOB = { uid: 12_342, gid: 12_342 };
/** In Alice's group. */
export const CAROL = { uid: 12_343, gid: 12_350 };

export type Step = readonly [string, ...unknown[]];
export interface Outcome {
  readonly value?: unknown;
  readonly code?: string;
  readonly message?: string;
}

/** Starts a process of this user with its steps. */
export async function tenant(hub: TestHub, user: typeof ALICE, ...steps: Step[]): Promise<Actor> {
  const env = { CUDA_IPC_HUB_UID: String(HUB.uid) };
  const file = new URL("./actors/tenant.js", import.meta.url);
  const actor = new Actor(file, { args: [hub.socket, JSON.stringify(steps)], user, env });
  assert.equal(await actor.says(), "here");
  return actor;
}

export async function outcome(actor: Actor): Promise<Outcome> {
  return (await actor.says()) as Outcome;
}

/** Runs one step in a new process, and returns its outcome. */
export async function tryAs(hub: TestHub, user: typeof ALICE, ...step: Step): Promise<Outcome> {
  await using actor = await tenant(hub, user, step);
  return await outcome(actor);
}

export async function assertDone(actor: Actor, value: unknown = null): Promise<void> {
  assert.deepEqual(await outcome(actor), { value });
}

export function assertDenied({ code, message }: Outcome, words: RegExp): void {
  assert.equal(code, "PERMISSION_DENIED", message);
  assert.match(message ?? "", words);
}

export function assertOver({ code, message }: Outcome, words: RegExp): void {
  assert.equal(code, "LIMIT_EXCEEDED", message);
  assert.match(message ?? "", words);
}

export const forAll = (access: string) => ({ with: "all", access });
