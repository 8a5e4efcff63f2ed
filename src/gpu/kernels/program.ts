/**
 * Compiles CUDA C++ at run time with libnvrtc, if that is installed. Compiling needs no GPU. Load
 * the result on a GPU as a Module.
 */
import { formatBytes } from "../../base/bytes.js";
import { Deadline, type WaitOptions } from "../../base/deadline.js";
import { CudaIpcError } from "../../base/errors.js";
import { limits } from "../../base/limits.js";
import {
  anObject,
  arrayOfStrings,
  aString,
  optionsOf,
  waitChecks,
} from "../../base/option-checks.js";
import { shownValue } from "../../base/shown-value.js";
import { type Compiled, openCompiler } from "../../driver/cuda/nvrtc-compilation.js";
import type { Device } from "../device.js";
import { Module } from "./module.js";
import { chooseArchitecture } from "./program-architecture.js";

export interface CompileOptions extends WaitOptions {
  /**
   * Compiles for this device only, into a cubin, which works with any PTX version of the driver. If
   * the device is newer than the compiler, the result is PTX for the newest known architecture.
   */
  readonly device?: Device;
  /**
   * `sm_90` for a cubin, `compute_90` for PTX that newer devices load, too. Without `arch` and
   * `device` the result is PTX for the oldest architecture that the compiler knows.
   */
  readonly arch?: string;
  /** Folders for `#include`. NVRTC has no default folders. */
  readonly includeDirs?: readonly string[];
  /** Macros: `{ WIDTH: 16, FAST: true }`. True defines 1; false defines nothing. */
  readonly defines?: Readonly<Record<string, string | number | boolean>>;
  /** The language standard: `c++17`, `c++20`. */
  readonly std?: string;
  /** The name of the source in messages; `program.cu` by default. */
  readonly name?: string;
  /** More NVRTC options, passed unchanged: `--use_fast_math`, `-lineinfo`. */
  readonly flags?: readonly string[];
}

const checkCompile = optionsOf<CompileOptions>("Program.compile()", {
  ...waitChecks,
  device: anObject,
  arch: aString,
  includeDirs: arrayOfStrings,
  defines: anObject,
  std: aString,
  name: aString,
  flags: arrayOfStrings,
});

export class Program {
  readonly name: string;
  /** The architecture it was compiled for: `sm_90`, `compute_75`. */
  readonly arch: string;
  readonly ptx: string;
  /** Machine code for `arch`; undefined if `arch` begins with `compute_`. */
  readonly cubin: Uint8Array | undefined;
  /** The compiler's warnings, with line numbers; empty if there are none. */
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
   * Compiles on the thread pool. After a timeout or an abort the compilation continues there until
   * it ends, and keeps the process alive until then. Declare kernels `extern "C"`, or their names
   * are mangled.
   * @throws COMPILE_FAILED with the compiler's log and its line numbers; NVRTC_NOT_FOUND listing
   * the searched locations; UNSUPPORTED if the compiler makes no code for the device; TIMEOUT,
   * ABORTED
   *
   * @example
   * const source = `extern "C" __global__ void twice(float* x) { x[threadIdx.x] *= 2; }`;
   * const program = await Program.compile(source, { device });
   * using module = program.load(device);
   */
  static async compile(source: string, options: CompileOptions = {}): Promise<Program> {
    checkCompile(options);
    const name = text("name", options.name ?? "program.cu");
    const deadline = new Deadline(`compile ${name}`, options, Number.POSITIVE_INFINITY);
    checkSource(name, source);
    const given = givenOptions(options);
    const { device } = options;
    if (device !== undefined && device.facts.computeCapability === undefined) {
      throw new CudaIpcError(
        "UNSUPPORTED",
        `Cannot compile ${name} for ${device.name}: it runs no code for GPUs`,
      );
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
   * Loads the program with all its kernels. See `Module.load` for when to call it.
   * @throws INVALID_MODULE, also if the driver is older than the compiler and does not know its PTX
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
    `Cannot compile ${name}: its source has ${formatBytes(byteLength)}, the limit ` +
      `(moduleBytesMax) is ${formatBytes(limits.moduleBytesMax)}`,
  );
}

function givenOptions({
  includeDirs = [],
  defines = {},
  std,
  flags = [],
}: CompileOptions): string[] {
  return [
    ...includeDirs.map((folder) => `--include-path=${text("includeDirs", folder)}`),
    ...Object.entries(defines).flatMap(([macro, value]) => defineOption(macro, value)),
    ...(std === undefined ? [] : [`--std=${text("std", std)}`]),
    ...flags.map((flag) => text("flags", flag)),
  ];
}

function defineOption(macro: string, value: string | number | boolean): string[] {
  if (!/^[A-Za-z_]\w*$/.test(macro))
    throw new TypeError(`defines: ${JSON.stringify(macro)} is not a macro name`);
  if (value === false) return [];
  return [`--define-macro=${macro}=${text("defines", value === true ? "1" : String(value))}`];
}

/** Checks a string for C: it must not contain a zero character. */
function text(option: string, value: string): string {
  if (typeof value !== "string")
    throw new TypeError(`${option} must be a string, not ${shownValue(value)}`);
  if (value.includes("\0")) throw new TypeError(`${option} must not have a zero character in it`);
  return value;
}
