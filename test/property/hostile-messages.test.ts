/**
 * The hub's core gets 20,000 random and damaged messages of one session, beside good sessions. `npm
 * run test:all` sends 50,000, `NIGHTLY=1` a million. `SEED=number` repeats a run.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { HostileWorld } from "../support/hostile-world.js";
import { MessageMutations } from "../support/message-mutations.js";
import { fdCountOf, mayEndOthers, requests } from "../support/messages.js";
import { nightly, Random, seedOfRun, thorough } from "../support/random.js";

const MESSAGES = nightly ? 1_000_000 : thorough ? 50_000 : 20_000;
/** The full comparison costs as much as about fifty messages. */
const COMPARED_EVERY = 500;
/**
 * The share of messages that a session damages. If all are damaged, the session gets nowhere. If
 * few are, it comes to hold things.
 */
const SPOILS = [0.01, 0.05, 0.3, 1];

describe("a hostile session of the hub's core", () => {
  it("ends nothing but itself, whatever it sends", (t) => {
    const seed = seedOfRun();
    t.diagnostic(`SEED=${seed}`);
    const random = new Random(seed);
    const world = new HostileWorld();
    const mutations = new MessageMutations(random, requests, world.vocabulary);
    let spoil = 1;
    let left = 100;
    let bytes: Uint8Array = new Uint8Array();
    let count = 0;
    try {
      for (; count < MESSAGES; count += 1) {
        if (!world.alive || left === 0) {
          world.end(random.chance(0.5));
          world.begin(random.chance(0.9));
          spoil = random.pick(SPOILS);
          left = 1 + random.below(400);
        }
        left -= 1;
        const sample = random.pick(requests);
        bytes = mutations.next(spoil, sample);
        if (mayEndOthers(bytes)) continue;
        if (random.chance(0.002))
          world.damagedPacket(bytes, random.pick(["MESSAGE_TOO_LARGE", "TOO_MANY_FDS"]));
        else world.packet(bytes, attach(world, random, sample));
        if (count % COMPARED_EVERY === 0) world.compare();
      }
      world.end(false);
      world.compare();
    } catch (cause) {
      const text = Buffer.from(bytes.subarray(0, 2000)).toString("latin1");
      throw new Error(`SEED=${seed}, message ${count}: ${text}: ${String(cause)}`, { cause });
    }
    const { answered, refused, ended } = world.counts;
    t.diagnostic(`answered ${answered}, refused ${refused}, ended their session ${ended}`);
    assert.ok(
      Math.min(answered, refused, ended) > MESSAGES / 20,
      "messages of each kind were sent",
    );
  });
});

/** The descriptors that a sample needs, or others. */
function attach(world: HostileWorld, random: Random, sample: (typeof requests)[number]): number[] {
  const right = fdCountOf(sample);
  const count = random.chance(0.95) ? right : random.pick([0, 1, 2, 3, 253]);
  const descriptor = sample.op === "create" ? sample.descriptor : undefined;
  if (descriptor?.content.kind === "channel" && count === right && random.chance(0.8)) {
    return world.rig.channelFds(descriptor.content);
  }
  return Array.from({ length: count }, (_, index) => {
    const index200 = index === 1 && descriptor?.content.kind === "bundle";
    const byteLength = index200 ? 200 : (descriptor?.allocationByteLength ?? 4096);
    if (random.chance(0.9)) return world.rig.fd({ byteLength });
    return world.rig.fd({
      byteLength: random.pick([0, 1, byteLength - 1, byteLength + 1, 2 ** 53]),
      sizeSealed: random.chance(0.5),
      contentSealed: random.chance(0.5),
      writable: random.chance(0.5),
    });
  });
}
