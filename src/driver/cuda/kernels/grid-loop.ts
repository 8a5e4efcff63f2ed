/**
 * The common parts of all kernels: the head of the module, and the loop of the whole grid over the
 * elements. Drivers from 525 on compile PTX 7.0 for sm_50 for every GPU that they know.
 * https://docs.nvidia.com/cuda/parallel-thread-execution/
 *
 * Registers have names: `%i` is the element of this thread, `%count` the number of elements,
 * `%thread` the thread within its block.
 */

/** Threads of a block. The reductions need a power of two. */
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
  /** One is `count`, the number of elements. Names that begin with `at_` are device addresses. */
  readonly parameters: readonly Parameter[];
  /** Declarations besides those that every kernel has. */
  readonly registers: readonly string[];
  /** Runs before the loop, in every thread. */
  readonly before?: string;
  /** Runs for element %i. */
  readonly body: string;
  /** Runs after the loop, in every thread, also in those without an element. */
  readonly after?: string;
}

/** Makes the text of a kernel. Parameter `x` is in register `%x`. */
export function gridLoop({
  name,
  parameters,
  registers,
  before = "",
  body,
  after = "",
}: GridLoop): string {
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
