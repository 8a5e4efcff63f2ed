/** A core with one channel "c" of connection 1, for each test. Call `begin` before each test. */
import assert from "node:assert/strict";
import { privatePolicy } from "../../../../src/hub/limits/policy.js";
import { channelFdsAt } from "../../../../src/ring/channel-fds.js";
import type { ChannelContent } from "../../../../src/wire/channel-content.js";
import type { Sharing } from "../../../../src/wire/messages.js";
import { CoreRig, HUB_UID } from "../../../support/core-rig.js";
import { channelOf } from "../../../support/messages.js";

export const READER = { access: "read", wait: false, role: "reader" } as const;
export const OBSERVER = { access: "read", wait: false, role: "observer" } as const;
export const WRITER = { access: "read-write", wait: false, role: "writer" } as const;
export const SERVING_ALL = { ...privatePolicy(HUB_UID), users: "all" } as const;

export interface Opened {
  readonly lease: number;
  readonly place?: number;
  readonly fds: readonly number[];
}

export let rig: CoreRig;
/** The descriptors of channel "c". */
export let fds: number[];
export let object: number;
export let writerLease: number;

/** Creates and publishes a channel of connection 1. */
export function create(changes: Partial<ChannelContent> = {}, sharing?: Sharing): void {
  const descriptor = channelOf(changes);
  fds = rig.channelFds(descriptor.content);
  const fields = {
    name: "c",
    lifetime: "held",
    descriptor,
    ...(sharing === undefined ? {} : { sharing }),
  } as const;
  const result = rig.result(1, "create", fields, fds);
  [object, writerLease] = [result.object as number, result.lease as number];
  rig.result(1, "publish", { object });
}

export function open(
  connection: number,
  as: typeof READER | typeof OBSERVER | typeof WRITER = READER,
): Opened {
  const answer = rig.ask(connection, "open", { name: "c", ...as });
  assert.ok(answer.reply.ok, JSON.stringify(answer.reply));
  return { ...(answer.reply.result as Opened), fds: answer.fds };
}

export const control = () => fds[channelFdsAt.control] as number;
export const page = (place: number) => fds[channelFdsAt.page(place)] as number;
export const bell = (place: number) => fds[channelFdsAt.bell(place)] as number;
export const roomBell = () => fds[channelFdsAt.roomBell] as number;
export const writerEnd = (next: string, by = control()) => [
  `${by} ${next}`,
  `${bell(0)} ring`,
  `${bell(1)} ring`,
];

/** The core's writes since the last call. */
export function written(from = rig): string[] {
  return from.channelWords.splice(0);
}

export function begin(): void {
  rig = new CoreRig(SERVING_ALL);
  for (const id of [1, 2, 3, 4]) rig.greeted(id);
}

/** Replaces the channel's descriptors. */
export function bringFds(all: number[]): number[] {
  fds = all;
  return fds;
}
