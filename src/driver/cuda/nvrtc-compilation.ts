/** Compiles CUDA C++ with libnvrtc on the thread pool. It needs no GPU. */
import type { Deadline } from "../../base/deadline.js";
import { CudaIpcError } from "../../base/errors.js";
import { limits } from "../../base/limits.js";
import type { LoadLibrary } from "../../ffi/libcuda.js";
import { type Libnvrtc, nvrtcResult, openLibnvrtc } from "../../ffi/libnvrtc.js";
import { ptxEntries } from "./ptx-entries.js";

export interface CompileRequest {
  readonly source: string;
  /** The name of the source in the log. */
  readonly name: string;
  /** The compiler's own options, the architecture among them. */
  readonly options: readonly string[];
  /** Whether to make a cubin for one architecture besides the PTX. */
  readonly cubin: boolean;
}

export interface Compiled {
  readonly ptx: string;
  readonly kernelNames: readonly string[];
  readonly cubin: Uint8Array | undefined;
  /** Warnings and remarks; may be empty. */
  readonly log: string;
}

export interface Compiler {
  /** `13.0` */
  readonly version: string;
  /** The compute capabilities it compiles for, ascending: 90 for 9.0. */
  readonly architectures: readonly number[];
  /**
   * Compiles a source. After TIMEOUT or ABORTED the compilation continues on its thread, and frees
   * its memory when it ends.
   * @throws COMPILE_FAILED with the compiler's log, TIMEOUT, ABORTED
   */
  compile(request: CompileRequest, deadline: Deadline): Promise<Compiled>;
}

/** @throws NVRTC_NOT_FOUND */
export function openCompiler(load?: LoadLibrary): Compiler {
  const nvrtc = openLibnvrtc(load);
  return {
    version: readVersion(nvrtc),
    architectures: readArchitectures(nvrtc),
    compile: async (request, deadline) => {
      // Before the start, because the deadline alone does not stop a compilation.
      deadline.check();
      return deadline.race(compile(nvrtc, request), () => {});
    },
  };
}

async function compile(
  nvrtc: Libnvrtc,
  { source, name, options, cubin }: CompileRequest,
): Promise<Compiled> {
  const holder = new BigUint64Array(1);
  check(
    nvrtc,
    nvrtc.nvrtcCreateProgram(holder, source, name, 0, null, null),
    "nvrtcCreateProgram",
    name,
  );
  const program = holder[0] as bigint;
  try {
    const result = await new Promise<number>((resolve, reject) => {
      nvrtc.nvrtcCompileProgram.async(program, options.length, options, (failure, status) => {
        if (failure === null || failure === undefined) resolve(status);
        else reject(failure);
      });
    });
    const log = readLog(nvrtc, program, name);
    if (result !== nvrtcResult.NVRTC_SUCCESS) throw compileFailed(nvrtc, result, name, log);
    const ptx = textOf(readOutput(nvrtc, program, name, "nvrtcGetPTXSize", "nvrtcGetPTX"));
    const code = cubin
      ? readOutput(nvrtc, program, name, "nvrtcGetCUBINSize", "nvrtcGetCUBIN")
      : undefined;
    return { ptx, kernelNames: [...ptxEntries(ptx).keys()], cubin: code, log };
  } finally {
    nvrtc.nvrtcDestroyProgram(holder);
  }
}

function compileFailed(nvrtc: Libnvrtc, result: number, name: string, log: string): CudaIpcError {
  const words = nvrtc.nvrtcGetErrorString(result);
  const tail = log === "" ? "" : `\n${log}`;
  return new CudaIpcError(
    "COMPILE_FAILED",
    `Cannot compile ${name}: nvrtcCompileProgram failed with ${words}${tail}`,
  );
}

type SizeCall = "nvrtcGetPTXSize" | "nvrtcGetCUBINSize" | "nvrtcGetProgramLogSize";
type DataCall = "nvrtcGetPTX" | "nvrtcGetCUBIN" | "nvrtcGetProgramLog";

function readOutput(
  nvrtc: Libnvrtc,
  program: bigint,
  name: string,
  sizeOf: SizeCall,
  data: DataCall,
): Uint8Array {
  const size = new BigUint64Array(1);
  check(nvrtc, nvrtc[sizeOf](program, size), sizeOf, name);
  // SAFETY: the library writes exactly as many bytes as it said.
  const bytes = new Uint8Array(Number(size[0]));
  if (bytes.byteLength > 0) check(nvrtc, nvrtc[data](program, bytes), data, name);
  return bytes;
}

/** Reads the log without its final zero, cut off after `limits.compilerLogBytesMax`. */
function readLog(nvrtc: Libnvrtc, program: bigint, name: string): string {
  const bytes = readOutput(nvrtc, program, name, "nvrtcGetProgramLogSize", "nvrtcGetProgramLog");
  const text = textOf(bytes.subarray(0, limits.compilerLogBytesMax)).trim();
  const cut = bytes.byteLength - limits.compilerLogBytesMax;
  return cut > 0 ? `${text}\n... (${cut} bytes more)` : text;
}

/** Decodes the text before its final zero. */
function textOf(bytes: Uint8Array): string {
  const end = bytes.indexOf(0);
  return new TextDecoder().decode(end < 0 ? bytes : bytes.subarray(0, end));
}

function readVersion(nvrtc: Libnvrtc): string {
  const [major, minor] = [new Int32Array(1), new Int32Array(1)];
  check(nvrtc, nvrtc.nvrtcVersion(major, minor), "nvrtcVersion", "anything");
  return `${major[0]}.${minor[0]}`;
}

function readArchitectures(nvrtc: Libnvrtc): number[] {
  const count = new Int32Array(1);
  check(nvrtc, nvrtc.nvrtcGetNumSupportedArchs(count), "nvrtcGetNumSupportedArchs", "anything");
  const architectures = new Int32Array(count[0] as number);
  check(nvrtc, nvrtc.nvrtcGetSupportedArchs(architectures), "nvrtcGetSupportedArchs", "anything");
  return [...architectures].sort((a, b) => a - b);
}

function check(nvrtc: Libnvrtc, result: number, call: string, name: string): void {
  if (result === nvrtcResult.NVRTC_SUCCESS) return;
  const words = nvrtc.nvrtcGetErrorString(result);
  throw new CudaIpcError(
    "COMPILE_FAILED",
    `Cannot compile ${name}: ${call} failed with ${words} (${result})`,
  );
}
