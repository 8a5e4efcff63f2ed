/**
 * Copies an array from machine to machine, and measures the memory of the bridges meanwhile. Peers
 * are measured in turns with it.
 */
import { readFileSync } from "node:fs";
import type { Hub } from "../../src/client/hub.js";
import type { TestMachine } from "../../test/support/machines/test-machine.js";
import { CPrograms } from "../c-programs.js";
import type { Row } from "../measure.js";
import { sendFileMs, ucxPerftest } from "./peers.js";
import type { Place } from "./site.js";

const MiB = 1024 * 1024;
const PIECE_BYTES = 4 * MiB;
const RATIO_MIN = 0.9;
const BRIDGE_MIB_MAX = 200;
const LOOK_MS = 20;

export interface CopyOptions {
  readonly byteLength: number;
  readonly rounds: number;
}

export interface CopySides {
  readonly from: TestMachine;
  readonly to: TestMachine;
  readonly hubOfFrom: Hub;
  readonly hubOfTo: Hub;
}

/** From one machine's array to another one's, beside sendfile in C and ucx_perftest. */
export async function hostCopies(
  sides: CopySides,
  places: readonly [Place, Place],
  { byteLength, rounds }: CopyOptions,
  link: string,
): Promise<Row[]> {
  using c = new CPrograms("host");
  using copy = await Copies.of(sides, "host", byteLength);
  const best = new Best(byteLength);
  const peers = {
    used: "sendfile in C, to memory that was used before",
    new: "sendfile in C, to new memory",
    ucx: `ucx_perftest tag_bw, pieces of ${PIECE_BYTES / MiB} MiB to the same memory`,
  };
  for (let round = 0; round < rounds; round += 1) {
    best.add("ours", await copy.once());
    best.add(peers.new, await sendFileMs(c, places, byteLength, "new"));
    best.add(peers.used, await sendFileMs(c, places, byteLength, "used"));
    const count = String(Math.ceil(byteLength / PIECE_BYTES));
    const test = ["-t", "tag_bw", "-s", String(PIECE_BYTES), "-n", count, "-w", "2"];
    const found = await ucxPerftest(places, test);
    best.add(
      peers.ucx,
      typeof found === "string" ? found : (byteLength / found.bytesPerSecond) * 1000,
    );
  }
  const ours = best.rate("ours");
  const ratio = ours / best.rate(peers.new);
  const what = `an array of ${byteLength / MiB} MiB over ${link}, best of ${rounds}`;
  return [
    ...Object.values(peers).map((what) => best.row(what)),
    {
      ...best.row("ours"),
      what,
      ...(Number.isNaN(ratio) ? {} : { comparedWith: peers.new, ratio, ...goalOf(ratio) }),
    },
    {
      what: `memory of a bridge meanwhile, without that of the array`,
      value: copy.bridgeMiB,
      unit: "MiB",
      goal: `under ${BRIDGE_MIB_MAX} MiB`,
      met: copy.bridgeMiB < BRIDGE_MIB_MAX,
    },
  ];
}

function goalOf(ratio: number): Pick<Row, "goal" | "met"> {
  return { goal: `at least ${RATIO_MIN} times that`, met: ratio >= RATIO_MIN };
}

export interface GpuCopies {
  readonly device: string;
  /** Where the copies are made. */
  readonly target: string;
  /** The row of the same copy in host memory. */
  readonly host: Row;
}

/** From GPU memory to GPU memory. */
export async function gpuCopies(
  sides: CopySides,
  { device, target, host }: GpuCopies,
  { byteLength, rounds }: CopyOptions,
): Promise<Row[]> {
  using copy = await Copies.of(sides, device, byteLength);
  const best = new Best(byteLength);
  for (let round = 0; round < rounds; round += 1) best.add("ours", await copy.once());
  const ratio = best.rate("ours") / host.value;
  return [
    {
      ...best.row("ours"),
      what: `the same from memory of ${device} to memory of ${target}, by tcp alone`,
      comparedWith: "host to host",
      ratio,
      goal: "at least 0.8 times host to host",
      met: ratio >= 0.8,
    },
    {
      what: `memory of a bridge meanwhile, with that of the GPU's driver`,
      value: copy.bridgeMiB,
      unit: "MiB",
    },
  ];
}

/** The shortest times, or why there are none. */
class Best {
  readonly #byteLength: number;
  readonly #ms = new Map<string, number>();
  readonly #missing = new Map<string, string>();

  constructor(byteLength: number) {
    this.#byteLength = byteLength;
  }

  add(what: string, found: number | string): void {
    if (typeof found === "string") this.#missing.set(what, found);
    else this.#ms.set(what, Math.min(found, this.#ms.get(what) ?? Number.POSITIVE_INFINITY));
  }

  /** GB/s */
  rate(what: string): number {
    return this.#byteLength / (this.#ms.get(what) ?? Number.NaN) / 1e6;
  }

  row(what: string): Row {
    const missing = this.#missing.get(what);
    return {
      what,
      value: this.rate(what),
      unit: "GB/s",
      ...(missing === undefined ? {} : { missing }),
    };
  }
}

class Copies implements Disposable {
  readonly #sides: CopySides;
  readonly #name: string;
  readonly #original: Disposable;
  bridgeMiB = 0;

  private constructor(sides: CopySides, name: string, original: Disposable) {
    this.#sides = sides;
    this.#name = name;
    this.#original = original;
  }

  static async of(sides: CopySides, device: string, byteLength: number): Promise<Copies> {
    const { from, hubOfFrom } = sides;
    const name = `large-${device.replace(":", "-")}`;
    const original = await hubOfFrom.create(name, {
      dtype: "uint8",
      shape: [byteLength],
      device,
    });
    await original.fill(1);
    await original.publish();
    await from.says(`announced: "${name}"`);
    return new Copies(sides, name, original);
  }

  /** Milliseconds from the call of `open` until the array is there. */
  async once(): Promise<number> {
    const { from, to, hubOfTo } = this.#sides;
    const look = setInterval(() => {
      for (const { bridgePid } of [from, to])
        this.bridgeMiB = Math.max(this.bridgeMiB, ownMiB(bridgePid));
    }, LOOK_MS);
    try {
      const startMs = performance.now();
      (await hubOfTo.open(this.#name, { from: "any" })).close();
      return performance.now() - startMs;
    } finally {
      clearInterval(look);
      await hubOfTo.remove(this.#name);
    }
  }

  [Symbol.dispose](): void {
    this.#original[Symbol.dispose]();
  }
}

/** Resident memory of a process that is not shared memory. */
function ownMiB(pid: number): number {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  const kiB = (field: string) =>
    Number(new RegExp(`^${field}:\\s+(\\d+) kB$`, "m").exec(status)?.[1]);
  return (kiB("RssAnon") + kiB("RssFile")) / 1024;
}
