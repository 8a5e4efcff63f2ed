/** CUDA C++ compiled at run time, by libnvrtc where it is installed. It needs no GPU; its result is loaded on one as a Module. */
import { formatBytes } from "../base/bytes.js";
import { Deadline, type WaitOptions } from "../base/deadline.js";
import { CudaIpcError } from "../base/errors.js";
import { limits } from "../base/limits.js";
import { type Compiled, openCompiler } from "../driver/cuda/nvrtc-compilation.js";
import type { Device } from "./device.js";
import { Module } from "./module.js";
import { chooseArchitecture } from "./program-architecture.js";

export interface CompileOptions extends WaitOptions {
  /**
   * Compiles for this device alone, into a cubin, which does not depend on which PTX the driver knows. Where the device is newer than
   * the compiler it is PTX for the newest that the compiler knows.
   */
  readonly device?: Device;
  /**
   * `sm_90` for a cubin, `compute_90` for PTX that newer devices load too. Without this and a device: PTX for the oldest
   * architecture that the compiler knows, which most devices load.
   */
  readonly arch?: string;
  /** Folders of `#include`; NVRTC knows none of its own. */
  readonly includeDirs?: readonly string[];
  /** Macros: `{ WIDTH: 16, FAST: true }`; true is 1, and false leaves one out. */
  readonly defines?: Readonly<Record<string, string | number | boolean>>;
  /** The language: `c++17`, `c++20`. */
  readonly std?: string;
  /** What messages call the source; `program.cu` by default. */
  readonly name?: string;
  /** Further options of NVRTC, as they are: `--use_fast_math`, `-lineinfo`. */
  readonly flags?: readonly string[];
}

export class Program {
  readonly name: string;
  /** What it was compiled for: `sm_90`, `compute_75`. */
  readonly arch: string;
  readonly ptx: string;
  /** Code for `arch` alone; undefined where that is a `compute_` one. */
  readonly cubin: Uint8Array | undefined;
  /** The compiler's warnings, with line numbers; empty where there are none. */
  readonly log: string;
  readonly kernelNames: readonly string[];

  private constructor(name: string, arch: string, compiled: Compiled) {
    this.name = name;
    this.arch = arch;
    this.ptx = compiled.ptx;
    this.cubin = compiled.cubin;
    this.log = compiled.log;
    this.kernelNames = compiled.kernelNames;
  }

  /**
   * Compiles on the thread pool. A compilation that is given up goes on there until it ends, and keeps the process alive for as long.
   * Declare kernels `extern "C"`, or their names are C++'s mangled ones.
   * @throws COMPILE_FAILED with the compiler's log and its line numbers, NVRTC_NOT_FOUND naming where it was looked for,
   * UNSUPPORTED for a device that the compiler makes no code for, TIMEOUT, ABORTED
   *
   * @example
   * const program = await Program.compile(`extern "C" __global__ void twice(float* x) { x[threadIdx.x] *= 2; }`, { device });
   * using module = program.load(device);
   */
  static async compile(source: string, options: CompileOptions = {}): Promise<Program> {
    const name = text("name", options.name ?? "program.cu");
    const deadline = new Deadline(`compile ${name}`, options, Number.POSITIVE_INFINITY);
    checkSource(name, source);
    const given = givenOptions(options);
    const { device } = options;
    if (device !== undefined && device.facts.computeCapability === undefined) {
      throw new CudaIpcError("UNSUPPORTED", `Cannot compile ${name} for ${device.name}: it runs no code for GPUs`);
    }
    const compiler = openCompiler();
    const arch = chooseArchitecture(compiler, {
      arch: options.arch,
      computeCapability: device?.facts.computeCapability,
      deviceName: device?.name,
    });
    const request = {
      source,
      name,
      options: [`--gpu-architecture=${arch}`, ...given],
      cubin: arch.startsWith("sm_"),
    };
    return new Program(name, arch, await compiler.compile(request, deadline));
  }

  /**
   * Loads it with all its kernels. See `Module.load` for when.
   * @throws INVALID_MODULE, also where the driver is older than the compiler: PTX of a version that it does not know
   */
  load(device: Device, label: string = this.name): Module {
    return Module.load(device, this.cubin ?? this.ptx, { label, kernels: this.kernelNames });
  }
}

function checkSource(name: string, source: string): void {
  text("source", source);
  const byteLength = Buffer.byteLength(source);
  if (byteLength <= limits.moduleBytesMax) return;
  throw new CudaIpcError(
    "LIMIT_EXCEEDED",
    `Cannot compile ${name}: its source has ${formatBytes(byteLength)}, the limit (moduleBytesMax) is ${formatBytes(limits.moduleBytesMax)}`,
  );
}

function givenOptions({ includeDirs = [], defines = {}, std, flags = [] }: CompileOptions): string[] {
  return [
    ...includeDirs.map((folder) => `--include-path=${text("includeDirs", folder)}`),
    ...Object.entries(defines).flatMap(([macro, value]) => defineOption(macro, value)),
    ...(std === undefined ? [] : [`--std=${text("std", std)}`]),
    ...flags.map((flag) => text("flags", flag)),
  ];
}

function defineOption(macro: string, value: string | number | boolean): string[] {
  if (!/^[A-Za-z_]\w*$/.test(macro)) throw new TypeError(`defines: ${JSON.stringify(macro)} is no name of a macro`);
  if (value === false) return [];
  return [`--define-macro=${macro}=${text("defines", value === true ? "1" : String(value))}`];
}

/** A text that C can take: it ends at the first zero. */
function text(option: string, value: string): string {
  if (typeof value !== "string") throw new TypeError(`${option} must be a string, not ${typeof value}`);
  if (value.includes("\0")) throw new TypeError(`${option} must not have a zero character in it`);
  return value;
}
