// Many clients of one hub in one process, each with its own connection. bench/hub gives the orders.
import { CudaIpcError, connect, type ImportedTimeline, type SharedArray } from "../../src/index.js";
import { serve } from "../hub/helper-side.js";
import { monotonicMs } from "../hub/monotonic.js";
import { Random } from "../random.js";

type Member = Awaited<ReturnType<typeof connect>>;

const members: Member[] = [];
let waits: Promise<Outcome>[] = [];
let opens: Promise<number>[] = [];
let held: SharedArray[] = [];
let timelines: ImportedTimeline[] = [];

let timer: NodeJS.Timeout | undefined;
let replaced: SharedArray | undefined;
let replacements = 0;

interface Flow {
  readonly writer: Awaited<ReturnType<Member["createChannel"]>>;
  readonly reader: Awaited<ReturnType<Member["openChannel"]>>;
}

interface Outcome {
  readonly code: string;
  readonly atMs: number;
}

serve({
  /**
   * Connects clients that each share and keep arrays, named `object-0` and so on from `first`.
   * Returns milliseconds of sharing.
   */
  async join(order: {
    socket: string;
    clients: number;
    objectsEach: number;
    byteLength: number;
    first: number;
  }) {
    const { socket, objectsEach, byteLength } = order;
    let next = order.first;
    for (let index = 0; index < order.clients; index += 1) {
      members.push(
        await connect({
          socket,
          device: "host",
          start: false,
          program: `member ${members.length}`,
        }),
      );
    }
    const startMs = performance.now();
    const names = members.map(() => Array.from({ length: objectsEach }, () => `object-${next++}`));
    await Promise.all(
      members.map(async (member, index) => {
        for (const name of names[index] ?? []) {
          const array = await member.create(name, { dtype: "uint8", shape: [byteLength] });
          await array.publish();
        }
      }),
    );
    return performance.now() - startMs;
  },

  /**
   * Opens and closes one object after the other, each with another client. Returns microseconds of
   * each.
   */
  async openAndClose(order: { samples: number; objects: number; seed: number }): Promise<number[]> {
    const random = new Random(order.seed);
    const us: number[] = [];
    for (let sample = 0; sample < order.samples; sample += 1) {
      const name = `object-${random.below(order.objects)}`;
      const member = random.pick(members);
      const startMs = performance.now();
      const array = await member.open(name);
      array.close();
      us.push((performance.now() - startMs) * 1000);
    }
    return us;
  },

  /**
   * Lets every client wait for the timeline, hold an array, and wait to open an unpublished one.
   */
  async waitForProducer(order: {
    timeline: string;
    arrays: readonly string[];
    unpublished: string;
  }) {
    for (const [index, member] of members.entries()) {
      const name = order.arrays[index % order.arrays.length];
      if (name !== undefined) held.push(await member.open(name));
      const timeline = await member.openTimeline(order.timeline);
      timelines.push(timeline);
      waits.push(outcomeOf(timeline.wait(1)));
      opens.push(grantOf(member.open(order.unpublished, { timeoutMs: 60_000 })));
      // A failure is reported with the results.
      opens.at(-1)?.catch(() => {});
    }
  },

  /** How the waits for the timeline ended, and when the last one did. */
  async waitsEnded(): Promise<{ codes: Record<string, number>; lastMs: number }> {
    const outcomes = await Promise.all(waits);
    waits = [];
    const codes: Record<string, number> = {};
    for (const { code } of outcomes) codes[code] = (codes[code] ?? 0) + 1;
    return { codes, lastMs: Math.max(...outcomes.map(({ atMs }) => atMs)) };
  },

  /** When the last of the waiting opens was granted. */
  async opensGranted(): Promise<{ lastMs: number }> {
    const grants = await Promise.all(opens);
    opens = [];
    return { lastMs: Math.max(...grants) };
  },

  /** Closes everything of the producer. */
  letGo(): void {
    for (const it of [...held, ...timelines]) it.close();
    held = [];
    timelines = [];
  },

  /**
   * Creates channels, each with a reader. Ten times a second each gets a message, and one object
   * makes way for another.
   */
  async stream(order: { channels: number }) {
    const [member] = members;
    if (member === undefined) throw new Error("join first");
    const flows: Flow[] = [];
    for (let i = 0; i < order.channels; i += 1) {
      const options = { dtype: "uint8", shape: [64], slots: 8 } as const;
      const writer = await member.createChannel(`channel-${i}`, options);
      flows.push({ writer, reader: await member.openChannel(`channel-${i}`) });
    }
    let isBusy = false;
    timer = setInterval(async () => {
      // A turn may take longer than the pause between two.
      if (isBusy) return;
      isBusy = true;
      await Promise.all([...flows.map(sendOne), replaceOne(member)]);
      isBusy = false;
    }, 100);
  },

  async leave() {
    clearInterval(timer);
    await Promise.all(members.splice(0).map((member) => member.close()));
  },
});

async function outcomeOf(wait: Promise<void>): Promise<Outcome> {
  try {
    await wait;
    return { code: "REACHED", atMs: monotonicMs() };
  } catch (error) {
    return {
      code: error instanceof CudaIpcError ? error.code : String(error),
      atMs: monotonicMs(),
    };
  }
}

async function grantOf(open: Promise<SharedArray>): Promise<number> {
  const array = await open;
  const atMs = monotonicMs();
  array.close();
  return atMs;
}

async function sendOne({ writer, reader }: Flow): Promise<void> {
  (await writer.loan()).commit();
  (await reader.next())?.release();
}

async function replaceOne(member: Member): Promise<void> {
  const before = replaced;
  replacements += 1;
  replaced = await member.create(`replaced-${replacements}`, { dtype: "uint8", shape: [4096] });
  before?.close();
}
