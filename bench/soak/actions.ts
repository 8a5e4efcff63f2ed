/** The actions of soak clients on arrays and bundles. All clients use the same names. */
import type { Lifetime } from "../../src/wire/messages.js";
import { contentOf, faultOf } from "./content.js";
import { work } from "./services.js";
import { meetRestless } from "./strangers.js";
import { follow, stream } from "./streams.js";
import type { Visit } from "./visit.js";

/** Few, so that names are often in use, removed and created again. */
const NAMES = 24;
const WORDS_MAX = 4096;
const OPEN_WAIT_MS = 200;

export type Action = (visit: Visit) => Promise<void>;

/** Weights are relative. */
const weighted: readonly (readonly [weight: number, action: Action])[] = [
  [20, shareArray],
  [8, shareBundle],
  [30, openArray],
  [12, openBundle],
  [6, stream],
  [10, follow],
  [2, work],
  [3, meetRestless],
  [15, (visit) => visit.lookAtOne()],
  [10, (visit) => visit.letOneGo()],
  [6, remove],
  [3, lookAround],
];
const totalWeight = weighted.reduce((sum, [weight]) => sum + weight, 0);

export function pickAction({ random }: Visit): Action {
  let left = random.below(totalWeight);
  for (const [weight, action] of weighted) {
    left -= weight;
    if (left < 0) return action;
  }
  return lookAround;
}

function nameOf(kind: "array" | "bundle", { random }: Visit): string {
  return `${kind}-${random.below(NAMES)}`;
}

function sizeOf({ random }: Visit): number {
  return 16 + random.below(WORDS_MAX);
}

function lifetimeOf({ random }: Visit): Lifetime {
  return random.chance(0.2) ? "pinned" : "held";
}

async function shareArray(visit: Visit): Promise<void> {
  const { hub, random, tally } = visit;
  const name = nameOf("array", visit);
  const generation = random.below(2 ** 32);
  const content = contentOf(generation, sizeOf(visit));
  const options = {
    dtype: "uint32",
    shape: [content.length],
    lifetime: lifetimeOf(visit),
  } as const;
  const array = await tally.attempt("create array", ["NAME_TAKEN"], () =>
    hub.create(name, options),
  );
  if (array === undefined) return;
  // Some arrays are neither written nor published. An open of these would find no content.
  const unfinished = random.chance(0.1);
  if (unfinished) tally.count("leave unpublished");
  else {
    await tally.attempt("write", [], () => array.write(content));
    await tally.attempt("publish", ["NOT_FOUND"], () => array.publish());
  }
  const look = async () => (unfinished ? undefined : faultOf(await array.read(), generation));
  await visit.keep({ name, look, close: () => array.close() });
}

async function openArray(visit: Visit): Promise<void> {
  const { hub, random, tally } = visit;
  const name = nameOf("array", visit);
  const wait = random.chance(0.3);
  const options = { wait, timeoutMs: wait ? OPEN_WAIT_MS : undefined };
  const opening = async () => (await hub.open(name, options)).expectDType("uint32");
  const array = await tally.attempt("open array", ["NOT_FOUND", "TIMEOUT"], opening, OPEN_WAIT_MS);
  if (array === undefined) return;
  const held = { name, look: async () => faultOf(await array.read()), close: () => array.close() };
  await visit.look(held);
  if (random.chance(0.5)) await visit.keep(held);
  else await tally.attempt("close", [], () => array.close());
}

async function shareBundle(visit: Visit): Promise<void> {
  const { hub, random, tally } = visit;
  const name = nameOf("bundle", visit);
  const generation = random.below(2 ** 31);
  const parts = Array.from({ length: 1 + random.below(4) }, (_, index) =>
    contentOf(generation + index, sizeOf(visit)),
  );
  const shapes = parts.map(
    (part, index) => [`part-${index}`, { dtype: "uint32", shape: [part.length] }] as const,
  );
  const options = { lifetime: lifetimeOf(visit), metadata: { generation: String(generation) } };
  const create = () => hub.createBundle(name, Object.fromEntries(shapes), options);
  const bundle = await tally.attempt("create bundle", ["NAME_TAKEN"], create);
  if (bundle === undefined) return;
  for (const [index, part] of parts.entries()) {
    await tally.attempt("write", [], async () =>
      bundle.array(`part-${index}`).expectDType("uint32").write(part),
    );
  }
  await tally.attempt("publish", ["NOT_FOUND"], () => bundle.publish());
  await visit.keep({ name, look: () => bundleFault(bundle), close: () => bundle.close() });
}

async function openBundle(visit: Visit): Promise<void> {
  const { hub, random, tally } = visit;
  const name = nameOf("bundle", visit);
  const open = () => hub.openBundle(name, { wait: false });
  const bundle = await tally.attempt("open bundle", ["NOT_FOUND"], open);
  if (bundle === undefined) return;
  const held = { name, look: () => bundleFault(bundle), close: () => bundle.close() };
  await visit.look(held);
  if (random.chance(0.5)) await visit.keep(held);
  else await tally.attempt("close", [], () => bundle.close());
}

type Bundle = Awaited<ReturnType<Visit["hub"]["openBundle"]>>;

async function bundleFault(bundle: Bundle): Promise<string | undefined> {
  const generation = Number(bundle.metadata.generation);
  for (let index = 0; index < bundle.size; index += 1) {
    const content = await bundle.array(`part-${index}`).expectDType("uint32").read();
    const fault = faultOf(content, generation + index);
    if (fault !== undefined) return `part ${index}: ${fault}`;
  }
  return undefined;
}

async function remove(visit: Visit): Promise<void> {
  const name = nameOf(visit.random.chance(0.7) ? "array" : "bundle", visit);
  await visit.tally.attempt("remove", ["NOT_FOUND"], () => visit.hub.remove(name));
}

async function lookAround(visit: Visit): Promise<void> {
  const { hub, tally } = visit;
  await tally.attempt("status", [], () => hub.status());
  await tally.attempt("list", [], () => hub.list());
  await tally.attempt("inspect", ["NOT_FOUND"], () => hub.inspect(nameOf("array", visit)));
}
