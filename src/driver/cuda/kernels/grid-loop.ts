/**
 * What all kernels have in common: the module's head, and a loop in which the threads of the whole grid go through the elements.
 * PTX 7.0 for sm_50 is what drivers from 525 on compile for every GPU that they know.
 * https://docs.nvidia.com/cuda/parallel-thread-execution/
 *
 * Conventions: registers have names; `%i` is the element of this thread, `%count` their number, `%thread` the thread within its block.
 */

/** Threads of a block; the reductions count on it being a power of two. */
export const BLOCK_THREADS = 256;

export const moduleHead = `//
// Operations on elements, for cuda-ipc.
//
.version 7.0
.target sm_50
.address_size 64
`;

export interface Parameter {
  readonly name: string;
  readonly type: "u32" | "u64" | "f32" | "f64";
}

export interface GridLoop {
  readonly name: string;
  /** Of which `count` is one: the number of elements. Those whose names begin with `at_` are addresses in device memory. */
  readonly parameters: readonly Parameter[];
  /** Declarations beyond those that every kernel has. */
  readonly registers: readonly string[];
  /** Before the loop, in every thread. */
  readonly before?: string;
  /** For element %i. */
  readonly body: string;
  /** After the loop, in every thread, those without an element included. */
  readonly after?: string;
}

/** The text of a kernel. Parameter `x` is in register `%x`. */
export function gridLoop({ name, parameters, registers, before = "", body, after = "" }: GridLoop): string {
  const declared = parameters.map((it) => `  .param .${it.type} ${it.name}`).join(",\n");
  const loads = parameters.map(
    (it) => `  .reg .${it.type} %${it.name};
  ld.param.${it.type} %${it.name}, [${it.name}];${
    it.name.startsWith("at_") ? `\n  cvta.to.global.u64 %${it.name}, %${it.name};` : ""
  }`,
  );
  return `
.visible .entry ${name}(
${declared})
{
  .reg .pred %more;
  .reg .u32 %thread, %threads, %block, %blocks;
  .reg .u64 %i, %jump;
${registers.map((it) => `  ${it}\n`).join("")}${loads.join("\n")}

  // %i = block * threads + thread, and then one whole grid further each time.
  mov.u32 %thread, %tid.x;
  mov.u32 %threads, %ntid.x;
  mov.u32 %block, %ctaid.x;
  mov.u32 %blocks, %nctaid.x;
  cvt.u64.u32 %i, %thread;
  mad.wide.u32 %i, %block, %threads, %i;
  mul.wide.u32 %jump, %blocks, %threads;
${before}
  setp.lt.u64 %more, %i, %count;
  @!%more bra DONE;
LOOP:
${body}
  add.u64 %i, %i, %jump;
  setp.lt.u64 %more, %i, %count;
  @%more bra LOOP;
DONE:
${after}  ret;
}
`;
}
