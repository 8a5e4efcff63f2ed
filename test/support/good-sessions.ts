/** The good sessions beside a hostile one: what they share, and a check that nobody touched it. */
import assert from "node:assert/strict";
import type { Descriptor } from "../../src/wire/descriptor.js";
import type { CoreRig } from "./core-rig.js";
import { channelOf, gpuArray, hostArray, hostBundle, timelineDescriptor } from "./messages.js";

export const PRODUCER = 1;
export const READER = 2;
export const WAITER = 3;
export const OBSERVER = 4;
export const GOOD_SESSIONS = 4;
export const pidOf = (session: number) => 1000 + session;

export interface Share {
  readonly name: string;
  readonly descriptor: Descriptor;
  readonly lifetime: "held" | "pinned";
  /** The access of `READER`; undefined if the object is not published. */
  readonly access: "read" | "read-write" | undefined;
}

export const SHARES: readonly Share[] = [
  { name: "held", descriptor: hostArray, lifetime: "held", access: "read" },
  { name: "pinned", descriptor: hostBundle(3, 200), lifetime: "pinned", access: "read-write" },
  { name: "line", descriptor: timelineDescriptor, lifetime: "held", access: "read" },
  { name: "channel", descriptor: channelOf({ readersMax: 3 }), lifetime: "held", access: "read" },
  { name: "unpublished", descriptor: gpuArray, lifetime: "held", access: undefined },
];

export interface GoodObject {
  readonly share: Share;
  readonly object: number;
  readonly leases: readonly { readonly session: number; readonly lease: number }[];
  readonly fds: readonly number[];
  /** False once the name was removed. Any client may do that, the hostile session included. */
  named: boolean;
}

export function fdsOf(objects: readonly GoodObject[]): number[] {
  return objects.flatMap(({ fds }) => [...fds]);
}

export function checkTimelines(rig: CoreRig, objects: readonly GoodObject[]): void {
  const lines = new Set(fdsOf(objects));
  for (const { fd } of rig.ended)
    assert.ok(!lines.has(fd), "the timeline of a good session was ended");
  for (const { share, fds } of objects) {
    if (share.name !== "channel") continue;
    const [, control, roomBell, page] = fds;
    const written = rig.channelWords.map((words) => Number(words.split(" ")[0]));
    const own = written.filter((fd) => fds.includes(fd) && fd !== roomBell);
    assert.ok(!own.includes(control as number), "the channel of a good session was ended");
    assert.ok(!own.includes(page as number), "the seat of a good reader was touched");
  }
}

export function forgetAnswers(rig: CoreRig): void {
  rig.answered.length = 0;
  rig.hungUp.length = 0;
  rig.ended.length = 0;
  rig.channelWords.length = 0;
  rig.stops = 0;
  rig.restarts = 0;
  rig.records.length = 0;
  // WHY: other tests cover the limit of messages per second. Here it would refuse nearly all.
  rig.monotonic += 1000;
}
