/**
 * A stream of the soak: an array of slots that its owner fills in order, and a timeline that says
 * how many are filled. Slot 0 names the timeline. Readers read only slots that the timeline has
 * reached.
 */
import type { DeviceArray } from "../../src/index.js";
import { contentOf, faultOf, generationOf } from "./content.js";
import type { Visit } from "./visit.js";

const NAMES = 6;
const SLOTS = 32;
const SLOT_WORDS = 64;
const FOLLOW_WAIT_MS = 300;

export async function stream(visit: Visit): Promise<void> {
  const { hub, random, tally } = visit;
  const name = `stream-${random.below(NAMES)}`;
  const id = random.below(2 ** 31);
  const timelineName = timelineOf(id);
  const timeline = await tally.attempt("create timeline", ["NAME_TAKEN"], () =>
    hub.createTimeline(timelineName),
  );
  if (timeline === undefined) return;
  const options = { dtype: "uint32", shape: [SLOTS, SLOT_WORDS] } as const;
  const slots = await tally.attempt("create stream", ["NAME_TAKEN"], () =>
    hub.create(name, options),
  );
  if (slots === undefined) {
    await tally.attempt("close", [], () => timeline.close());
    return;
  }
  await tally.attempt("write", [], () => slots.slice(0).write(contentOf(id, SLOT_WORDS)));
  await tally.attempt("publish", [], () => slots.publish());
  let filled = 1;
  await visit.keep({
    name,
    look: async () => {
      if (filled === SLOTS) return undefined;
      await slots.slice(filled).write(contentOf(id + filled, SLOT_WORDS));
      timeline.signal(filled);
      filled += 1;
      return undefined;
    },
    close: () => {
      slots.close();
      timeline.close();
    },
  });
}

export async function follow(visit: Visit): Promise<void> {
  const { hub, random, tally } = visit;
  const name = `stream-${random.below(NAMES)}`;
  const opening = async () => (await hub.open(name, { wait: false })).expectDType("uint32");
  const slots = await tally.attempt("open stream", ["NOT_FOUND"], opening);
  if (slots === undefined) return;
  try {
    const first = (await slots.slice(0).read()) as Uint32Array;
    const fault = faultOf(first);
    if (fault !== undefined) return tally.fault(`"${name}", slot 0: ${fault}`);
    await followTo(visit, slots, generationOf(first));
  } finally {
    slots.close();
  }
}

async function followTo(
  { hub, random, tally }: Visit,
  slots: DeviceArray<"uint32">,
  id: number,
): Promise<void> {
  const open = () => hub.openTimeline(timelineOf(id), { wait: false });
  const timeline = await tally.attempt("open timeline", ["NOT_FOUND"], open);
  if (timeline === undefined) return;
  const expected = ["PEER_GONE", "TIMEOUT"] as const;
  const reachedSoFar = () => Number(timeline.read({ evenIfEnded: true }));
  for (let target = reachedSoFar(); target < SLOTS; target += 1 + random.below(4)) {
    const wait = async () => {
      await timeline.wait(target, { timeoutMs: FOLLOW_WAIT_MS });
      return true;
    };
    const reached = await tally.attempt("wait for timeline", expected, wait, FOLLOW_WAIT_MS);
    const last = Math.min(reachedSoFar(), SLOTS - 1);
    if (reached && last < target)
      tally.fault(`${timeline.label}: waited for ${target}, its value is ${last}`);
    for (let slot = 0; slot <= last; slot += 1) {
      const fault = faultOf(await slots.slice(slot).read(), id + slot);
      if (fault !== undefined) tally.fault(`${timeline.label}, slot ${slot} of ${last}: ${fault}`);
    }
    if (!reached) break;
  }
  timeline.close();
}

function timelineOf(id: number): string {
  return `progress-${id}`;
}
