/** Handles that every driver refuses, and a process that exports an event and memory. */
import assert from "node:assert/strict";
import type { ErrorCode } from "../../src/base/error-codes.js";
import { CudaIpcError } from "../../src/base/errors.js";
import { Actor } from "../support/actor.js";
import type { Exported } from "./actors/exports.js";
import { noise } from "./conformance-rig.js";

const EXPORTS = new URL("./actors/exports.js", import.meta.url);

/** Bytes that are no handles: of other lengths, zeros, noise. */
export const noHandles: readonly Uint8Array[] = [
  ...[0, 63, 65, 66, 128].map((byteLength) => new Uint8Array(byteLength)),
  new Uint8Array(64),
  noise(64, 7),
  new Uint8Array(64).fill(0xff),
];

export interface Exporter {
  readonly actor: Actor;
  readonly memory: Uint8Array;
  readonly blockByteLength: number;
  readonly byteOffset: number;
  readonly event: Uint8Array;
}

/**
 * Another process with two granules of memory filled with cd ab 00 00, and an event whose recording
 * waits until the actor continues.
 */
export async function startExporter(kind: string): Promise<Exporter> {
  const actor = new Actor(EXPORTS, { args: [kind] });
  const said = (await actor.says()) as Exported;
  return {
    ...said,
    actor,
    memory: Buffer.from(said.memory, "base64"),
    event: Buffer.from(said.event, "base64"),
  };
}

export function assertRefused(attempt: () => unknown, ...codes: readonly ErrorCode[]): void {
  assert.throws(attempt, (error) => {
    assert.ok(error instanceof CudaIpcError && codes.includes(error.code), String(error));
    return true;
  });
}
