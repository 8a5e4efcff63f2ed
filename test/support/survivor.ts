/**
 * What a process must report when it loses its context on a GPU. See
 * test/gpu/actors/mps-survivor.ts.
 */
import assert from "node:assert/strict";
import type { Actor } from "./actor.js";

export const SURVIVOR = new URL("../gpu/actors/mps-survivor.js", import.meta.url);

interface End {
  readonly code: string;
  readonly message: string;
  readonly remedy: string;
  readonly atMs: number;
}

/** The open files of this package, and files that a driver may have open as well. */
type Files = readonly [ours: readonly string[], events: readonly string[]];

interface Closed {
  readonly closing: readonly string[];
  readonly left: Files;
  readonly before: Files;
}

type Ends = readonly (readonly [name: string, end: End])[];

const ofMps =
  /^Start this process again, open by name and go on: a client of its MPS server was killed or faulted/;

export interface Loss {
  /** Makes the process lose its context. */
  readonly lose: () => void;
  /** Receives the findings of a run that passes, one line each. */
  readonly tell?: (line: string) => void;
}

/** Lets the process wait and lose its context, and checks how its waits end. */
export async function checkSurvivor(
  survivor: Actor,
  { lose, tell = () => {} }: Loss,
): Promise<void> {
  await waiting(survivor);
  lose();
  await checkEnds(survivor, Date.now(), tell);
}

/** Resolves once the process waits in every possible way. */
export async function waiting(survivor: Actor): Promise<void> {
  const { sharesContext } = (await survivor.says()) as { readonly sharesContext: boolean };
  assert.equal(sharesContext, true, "the driver does not report MPS");
}

export async function checkEnds(
  survivor: Actor,
  lostMs: number,
  tell: (line: string) => void,
): Promise<void> {
  const ends = (await survivor.says()) as Ends;
  for (const [name, { code, message, atMs }] of ends)
    tell(`${name}: ${code} after ${atMs - lostMs} ms: ${message}`);
  for (const [name, end] of ends) checkEnd(name, end);
  const later = (await survivor.says()) as Ends;
  for (const [name, { code, message }] of later) tell(`${name}: ${code}: ${message}`);
  for (const [name, end] of later) checkEnd(name, end);
  const { closing, left, before } = (await survivor.says()) as Closed;
  assert.deepEqual({ closing, left: left[0] }, { closing: [], left: before[0] });
  tell(
    `bells, and similar files of the driver: ${before[1].length} before, ${left[1].length} after`,
  );
  survivor.goOn();
  assert.equal(await survivor.exited(), 0, survivor.complaint);
  assert.equal(survivor.complaint, "");
}

function checkEnd(name: string, { code, remedy, message }: End): void {
  assert.equal(code, "DEVICE_LOST", `${name}: ${message}`);
  assert.match(remedy, ofMps, name);
  assert.match(remedy, /Memory and names are unharmed/);
}
