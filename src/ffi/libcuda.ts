/**
 * Opens the CUDA driver's library and resolves the symbol tables beside this file. It calls only
 * the driver's version, for the message about a missing symbol.
 */
import { CudaIpcError } from "../base/errors.js";
import { cuResult } from "./cuda-constants.js";
import { ipcHandleType, koffi, type TypeObject } from "./koffi.js";
import { type DeviceFunctions, deviceFunctions } from "./libcuda-device.js";
import {
  type EventFunctions,
  eventFunctions,
  type LegacyMemoryFunctions,
  legacyMemoryFunctions,
} from "./libcuda-ipc.js";
import {
  type HostMemoryFunctions,
  hostMemoryFunctions,
  type VirtualMemoryFunctions,
  virtualMemoryFunctions,
} from "./libcuda-memory.js";
import { type ModuleFunctions, moduleFunctions } from "./libcuda-module.js";
import { type PoolFunctions, poolFunctions } from "./libcuda-pool.js";
import type { CudaParameter, CudaSignature } from "./libcuda-signature.js";
import { type StreamFunctions, streamFunctions } from "./libcuda-stream.js";

export interface Libcuda
  extends DeviceFunctions,
    VirtualMemoryFunctions,
    HostMemoryFunctions,
    StreamFunctions,
    EventFunctions,
    LegacyMemoryFunctions,
    PoolFunctions,
    ModuleFunctions {}

/** A shared library: the result of koffi's `load`, or a test's own. */
export interface SharedLibrary {
  /** Throws if the library has no such symbol. */
  func(
    symbol: string,
    result: string,
    parameters: ParameterType[],
  ): (...values: never[]) => unknown;
}

/** The name of a type in koffi, or a struct made with koffi. */
export type ParameterType = string | TypeObject;

export type LoadLibrary = (name: string) => SharedLibrary;

export const libcudaSymbols: Readonly<Record<keyof Libcuda, CudaSignature>> = {
  ...deviceFunctions,
  ...virtualMemoryFunctions,
  ...hostMemoryFunctions,
  ...streamFunctions,
  ...eventFunctions,
  ...legacyMemoryFunctions,
  ...poolFunctions,
  ...moduleFunctions,
};

/** The last is the path under WSL, which the linker does not always search. */
export const libcudaNames = [
  "libcuda.so.1",
  "libcuda.so",
  "/usr/lib/wsl/lib/libcuda.so.1",
] as const;

/**
 * Opens libcuda. WHY all symbols at once: an old driver is then refused at the start, and the
 * undoing of a half-done operation cannot fail for a missing symbol. It takes a few milliseconds.
 * @throws DRIVER_NOT_FOUND, DRIVER_TOO_OLD
 */
export function openLibcuda(load: LoadLibrary = (name) => koffi().load(name)): Libcuda {
  const library = loadFirst(load);
  const functions: Record<string, unknown> = {};
  for (const [name, signature] of Object.entries(libcudaSymbols)) {
    functions[name] = resolve(library, signature);
  }
  return functions as unknown as Libcuda;
}

/** Reads the C string whose address the driver wrote to `holder`. */
export function decodeCString(holder: BigUint64Array): string | undefined {
  if (holder[0] === 0n) return undefined;
  // SAFETY: called only with the result of cuGetErrorName, a constant inside libcuda.
  return koffi().decode(holder, "str") as string;
}

function loadFirst(load: LoadLibrary): SharedLibrary {
  const failures: Error[] = [];
  const tried: string[] = [];
  for (const name of libcudaNames) {
    try {
      return load(name);
    } catch (error) {
      const failure = error instanceof Error ? error : new Error(String(error));
      failures.push(failure);
      tried.push(`${name} (${failure.message})`);
    }
  }
  throw new CudaIpcError(
    "DRIVER_NOT_FOUND",
    `Cannot open the CUDA driver, tried ${tried.join(", ")}`,
    {
      cause: new AggregateError(failures),
    },
  );
}

function resolve(library: SharedLibrary, { symbol, parameters, since }: CudaSignature): unknown {
  try {
    return library.func(symbol, "int", parameters.map(typeOf));
  } catch (cause) {
    if (since !== undefined) return undefined;
    const found = `it is of version ${driverVersion(library)} and lacks ${symbol}`;
    const message = `Cannot use the CUDA driver: ${found}`;
    throw new CudaIpcError("DRIVER_TOO_OLD", message, { cause });
  }
}

function typeOf(parameter: CudaParameter): ParameterType {
  return parameter === "CUipcHandle" ? ipcHandleType() : parameter;
}

function driverVersion(library: SharedLibrary): string {
  const out = new Int32Array(1);
  try {
    const { symbol, parameters } = deviceFunctions.cuDriverGetVersion;
    const get = library.func(symbol, "int", [...parameters]) as (version: Int32Array) => unknown;
    if (get(out) !== cuResult.CUDA_SUCCESS) return "unknown";
  } catch {
    // The missing symbol may be this one.
    return "unknown";
  }
  return formatCudaVersion(out[0] ?? 0);
}

/** `13.0` for 13000, `12.8` for 12080. */
export function formatCudaVersion(version: number): string {
  return `${Math.floor(version / 1000)}.${Math.floor((version % 1000) / 10)}`;
}
