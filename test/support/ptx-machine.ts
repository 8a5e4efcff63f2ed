/**
 * Runs PTX kernels on memory of this process. From barrier to barrier, it runs one thread after the
 * other. It knows only the PTX that this project's kernels use. It throws for unknown instructions
 * and for unaligned accesses or accesses outside memory.
 */

import {
  Assembler,
  type Program,
  type PtxMemory,
  type Step,
  type Thread,
} from "./ptx-assembler.js";
import { typeOf, type Value } from "./ptx-values.js";

export type { PtxMemory };

export interface PtxParameter {
  readonly name: string;
  readonly byteLength: number;
}

export class PtxKernel {
  readonly parameters: readonly PtxParameter[];
  readonly #text: string;

  private constructor(parameters: readonly PtxParameter[], text: string) {
    this.parameters = parameters;
    this.#text = text;
  }

  /** The kernels of a module by their names. */
  static parse(source: string): Map<string, PtxKernel> {
    const text = source.replace(/\/\/.*$/gm, "");
    const kernels = new Map<string, PtxKernel>();
    for (const [, name = "", list = "", body = ""] of text.matchAll(
      /\.visible \.entry (\w+)\(([^)]*)\)\s*\{([^}]*)\}/g,
    )) {
      const parameters = list.split(",").map((it) => {
        const [, type = "", parameter = ""] = /\.param \.(\w+) (\w+)/.exec(it) ?? [];
        return { name: parameter, byteLength: typeOf(type).bits / 8 };
      });
      kernels.set(name, new PtxKernel(parameters, body));
    }
    return kernels;
  }

  run(grid: number, block: number, args: readonly Uint8Array[], memory: PtxMemory): void {
    const values = new Map(this.parameters.map(({ name }, i) => [name, args[i] as Uint8Array]));
    const program = new Assembler(values, memory).assemble(this.#text);
    for (let id = 0; id < grid; id += 1) runBlock(program, id, grid, block);
  }
}

function runBlock(
  { steps, registerCount, sharedBytes }: Program,
  id: number,
  grid: number,
  block: number,
): void {
  const shared = new DataView(new ArrayBuffer(sharedBytes));
  const threads = Array.from({ length: block }, (_, thread): Thread => {
    const specials = { "%tid.x": thread, "%ntid.x": block, "%ctaid.x": id, "%nctaid.x": grid };
    return {
      registers: new Array<Value>(registerCount),
      specials,
      shared,
      at: 0,
      state: "running",
    };
  });
  for (;;) {
    for (const thread of threads) {
      while (thread.state === "running") {
        const step = steps[thread.at] as Step;
        thread.at += 1;
        step(thread);
      }
    }
    const waiting = threads.filter(({ state }) => state === "waiting");
    if (waiting.length === 0) return;
    if (waiting.length < block)
      throw new Error("some threads wait at a barrier that others never reach");
    for (const thread of waiting) thread.state = "running";
  }
}
