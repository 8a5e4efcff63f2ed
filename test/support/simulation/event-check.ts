/** Checks of one simulated event. */
import assert from "node:assert/strict";
import { CudaIpcError } from "../../../src/base/errors.js";
import type { ConnectionId } from "../../../src/hub/core/ports.js";
import { checkWords } from "./channel-rules.js";
import { drained } from "./rules.js";
import type { Simulation } from "./simulation.js";

/** An event that the server still has to report to the core. */
export interface Happening {
  readonly what: "hungUp" | "processEnded";
  readonly connection: ConnectionId;
}

/** Checks after an event that the core did what the model says, and nothing else. */
export function checkEvent({
  world,
  model,
  core,
  judge,
}: Pick<Simulation, "world" | "model" | "core" | "judge">): void {
  assert.deepEqual(world.violations, []);
  drained({ model, judge });
  judge.done();
  judge.changeWaits.check(model);
  if (world.open.size !== model.fdCount)
    assert.fail(`descriptors: ${world.open.size}, wanted ${model.fdCount}`);
  if (world.store.size !== model.withMemory)
    assert.fail(`objects with memory: ${world.store.size}, wanted ${model.withMemory}`);
  if (core.objectCount !== model.objects.size)
    assert.fail(`objects: ${core.objectCount}, wanted ${model.objects.size}`);
  if (core.connectionCount !== model.connections.size)
    assert.fail(`connections: ${core.connectionCount}, wanted ${model.connections.size}`);
  const { toBeEnded } = model;
  for (const file of world.endedNow)
    assert.ok(toBeEnded.includes(file), `the timeline in file ${file.number} has a living owner`);
  for (const file of toBeEnded)
    assert.ok(file.ended, `the timeline in file ${file.number} is not ended`);
  for (const file of model.toBeRung)
    assert.ok(world.rung.has(file), `the bell in file ${file.number} has not rung`);
  model.checkFiles(checkWords);
}

/** The code of the error that `act` throws, if it throws. */
export function codeOf(act: () => void): string | undefined {
  try {
    act();
    return undefined;
  } catch (error) {
    if (error instanceof CudaIpcError) return error.code;
    throw error;
  }
}

export const IDENTITY = {
  version: "0",
  instance: "simulated",
  pid: 1,
  startedAtMs: 0,
  socket: "/hub",
  idleMs: null,
};
