/**
 * System S7, first exercise: processes take turns at one sequence in shared memory. Each writes
 * every N-th Fibonacci number, from the two numbers that its neighbours wrote before it. It then
 * tells the next process by its timeline, a counter that one process signals and all can wait for.
 *
 *   npx cuda-ipc demo fibonacci   with the package installed
 *   node examples/fibonacci.ts    in a clone after `npm install`, with Node 24 or newer
 *   --elements 94 --processes 3 --device cuda:0
 *
 * The output (the numbers are processes):
 *   4711  created uint64[94] on cuda:0 for 3 processes
 *   4712  is rank 0 and wrote 32 of the numbers
 *   4713  is rank 1 and wrote 31 of the numbers
 *   4714  is rank 2 and wrote 31 of the numbers
 *   4711  finds 0, 1, 1, 2, 3, 5, 8, 13, ... 12200160415121876738: every element verified
 */
import { connect, type Hub } from "cuda-ipc";
import { Child, heard, tellParent } from "./child.ts";
import { LIMIT, type Options, run, say, verify, WrongOption } from "./program.ts";

await run({ elements: 94, processes: 3 }, (options) =>
  options.role === "rank" ? rank(options) : parent(options),
);

/** A hub that this example started ends soon after its last process. */
function join({ device }: Options): Promise<Hub> {
  return connect({ device, hubIdleMs: 500, ...LIMIT });
}

async function parent(options: Options): Promise<void> {
  const { elements, processes } = options;
  if (processes < 2) throw new WrongOption("--processes must be at least 2: they take turns");
  const name = `fibonacci-${process.pid}`;
  await using hub = await join(options);
  using sequence = await hub.create(name, { dtype: "uint64", shape: [elements] });
  await sequence.publish();
  say(`created uint64[${elements}] on ${sequence.device.name} for ${processes} processes`);
  const children = Array.from({ length: processes }, (_, i) => {
    return new Child(import.meta.url, "rank", options, { args: [name, String(i)] });
  });
  await Promise.all(children.map((child) => child.hear()));
  // A timeline ends with its owner, so no process leaves before all have arrived.
  for (const child of children) child.tell("end");
  await Promise.all(children.map((child) => child.finished()));

  const values = await sequence.read();
  const expected = fibonacci();
  verify("the sequence", values, () => expected.next().value);
  say(`finds ${values.slice(0, 8).join(", ")}, ... ${values.at(-1)}: every element verified`);
}

async function rank(options: Options): Promise<void> {
  const { elements, processes } = options;
  const [name = "", text = ""] = options.args;
  const mine = Number(text);
  await using hub = await join(options);
  using sequence = await hub.open(name, { access: "read-write", ...LIMIT });
  const numbers = sequence.expectDType("uint64");
  using turn = await hub.createTimeline(`${name}-${mine}`);
  using before = await hub.openTimeline(`${name}-${(mine + processes - 1) % processes}`, LIMIT);
  let written = 0;
  for (let i = mine; i < elements; i += processes) {
    // The neighbour has written element i - 1 after all before it. If it dies, this throws
    // PEER_GONE.
    await before.wait(i, LIMIT);
    const [a = 0n, b = BigInt(i)] =
      i < 2 ? [] : await numbers.slice({ start: i - 2, stop: i }).read();
    await numbers.slice({ start: i, stop: i + 1 }).write([BigInt.asUintN(64, a + b)]);
    turn.signal(i + 1);
    written += 1;
  }
  say(`is rank ${mine} and wrote ${written} of the numbers`);
  tellParent("done");
  await heard();
}

/** In 64 bits: from the 94th number on, the higher bits are cut off. */
function* fibonacci(): Generator<bigint, never> {
  for (let [a, b] = [0n, 1n]; ; [a, b] = [b, BigInt.asUintN(64, a + b)]) yield a;
}
