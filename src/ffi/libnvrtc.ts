/**
 * libnvrtc, the run-time compiler of CUDA C++: its symbols and signatures, and the search for the
 * library. It needs no GPU and no driver, and its functions may be called from any thread.
 * https://docs.nvidia.com/cuda/nvrtc/
 */
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { CudaIpcError, messageOf } from "../base/errors.js";
import { koffi } from "./koffi.js";
import type { LoadLibrary, SharedLibrary } from "./libcuda.js";

/** nvrtcProgram: an opaque pointer. */
type ProgramHandle = bigint;
/** nvrtcResult. */
type Result = number;

export const nvrtcResult = {
  NVRTC_SUCCESS: 0,
  NVRTC_ERROR_INVALID_OPTION: 5,
  NVRTC_ERROR_COMPILATION: 6,
} as const;

export interface Libnvrtc {
  nvrtcVersion(major: Int32Array, minor: Int32Array): Result;
  nvrtcGetErrorString(result: Result): string;
  nvrtcGetNumSupportedArchs(count: Int32Array): Result;
  nvrtcGetSupportedArchs(architectures: Int32Array): Result;
  nvrtcCreateProgram(
    program: BigUint64Array,
    source: string,
    name: string,
    headerCount: 0,
    headers: null,
    includeNames: null,
  ): Result;
  nvrtcDestroyProgram(program: BigUint64Array): Result;
  nvrtcCompileProgram: {
    /** Runs on the thread pool for up to seconds. SAFETY: koffi keeps its copy of the options. */
    async(
      program: ProgramHandle,
      optionCount: number,
      options: readonly string[],
      callback: (failure: unknown, result: Result) => void,
    ): void;
  };
  nvrtcGetProgramLogSize(program: ProgramHandle, byteLength: BigUint64Array): Result;
  nvrtcGetProgramLog(program: ProgramHandle, log: Uint8Array): Result;
  nvrtcGetPTXSize(program: ProgramHandle, byteLength: BigUint64Array): Result;
  nvrtcGetPTX(program: ProgramHandle, ptx: Uint8Array): Result;
  nvrtcGetCUBINSize(program: ProgramHandle, byteLength: BigUint64Array): Result;
  nvrtcGetCUBIN(program: ProgramHandle, cubin: Uint8Array): Result;
}

const symbols: Readonly<
  Record<keyof Libnvrtc, readonly [result: string, ...parameters: string[]]>
> = {
  nvrtcVersion: ["int", "void*", "void*"],
  nvrtcGetErrorString: ["str", "int"],
  nvrtcGetNumSupportedArchs: ["int", "void*"],
  nvrtcGetSupportedArchs: ["int", "void*"],
  nvrtcCreateProgram: ["int", "void*", "str", "str", "int", "void*", "void*"],
  nvrtcDestroyProgram: ["int", "void*"],
  nvrtcCompileProgram: ["int", "void*", "int", "char**"],
  nvrtcGetProgramLogSize: ["int", "void*", "void*"],
  nvrtcGetProgramLog: ["int", "void*", "void*"],
  nvrtcGetPTXSize: ["int", "void*", "void*"],
  nvrtcGetPTX: ["int", "void*", "void*"],
  nvrtcGetCUBINSize: ["int", "void*", "void*"],
  nvrtcGetCUBIN: ["int", "void*", "void*"],
};

const NAMES = ["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "libnvrtc.so"] as const;

let opened: Libnvrtc | undefined;

/**
 * Opens the library once per process. If `CUDA_IPC_NVRTC` names a file, only that file is tried.
 * Otherwise the dynamic linker looks for the names above, then the folders of a toolkit and of the
 * active Python environment are searched.
 * @throws NVRTC_NOT_FOUND, naming everything that was tried
 */
export function openLibnvrtc(load?: LoadLibrary): Libnvrtc {
  if (load !== undefined) return resolve(loadFirst(load));
  opened ??= resolve(loadFirst((name) => koffi().load(name)));
  return opened;
}

function loadFirst(load: LoadLibrary): SharedLibrary {
  const failures: unknown[] = [];
  const tried: string[] = [];
  const attempt = (path: string): SharedLibrary | undefined => {
    try {
      return load(path);
    } catch (error) {
      failures.push(error);
      tried.push(`${path} (${messageOf(error)})`);
      return undefined;
    }
  };
  const chosen = process.env.CUDA_IPC_NVRTC;
  for (const path of chosen ? [chosen] : NAMES) {
    const library = attempt(path);
    if (library !== undefined) return library;
  }
  for (const folder of chosen ? [] : folders()) {
    const files = librariesIn(folder);
    if (files.length === 0) tried.push(`${folder} (no libnvrtc there)`);
    for (const file of files) {
      const library = attempt(join(folder, file));
      if (library !== undefined) return library;
    }
  }
  const where = chosen ? "CUDA_IPC_NVRTC=" : "";
  throw new CudaIpcError(
    "NVRTC_NOT_FOUND",
    `Cannot open the run-time compiler, tried ${where}${tried.join(", ")}`,
    {
      cause: new AggregateError(failures),
    },
  );
}

/** The folders in which toolkits and NVIDIA's Python wheels put the library. */
function folders(): string[] {
  const { CUDA_HOME, CUDA_PATH, VIRTUAL_ENV } = process.env;
  const toolkits = [CUDA_HOME, CUDA_PATH, "/usr/local/cuda"].filter(
    (it) => it !== undefined && it !== "",
  );
  const wheels = VIRTUAL_ENV ? sitePackages(join(VIRTUAL_ENV, "lib")) : [];
  return [
    ...new Set(toolkits.map((it) => join(it as string, "lib64"))),
    ...wheels.flatMap((it) => [join(it, "nvidia/cu13/lib"), join(it, "nvidia/cuda_nvrtc/lib")]),
  ];
}

function sitePackages(folder: string): string[] {
  return entries(folder)
    .filter((name) => name.startsWith("python3"))
    .map((name) => join(folder, name, "site-packages"));
}

/** Newest first. */
function librariesIn(folder: string): string[] {
  return entries(folder)
    .filter((name) => /^libnvrtc\.so(\.\d+)*$/.test(name))
    .sort((a, b) => b.localeCompare(a, "en", { numeric: true }));
}

function entries(folder: string): string[] {
  return existsSync(folder) ? readdirSync(folder) : [];
}

function resolve(library: SharedLibrary): Libnvrtc {
  const functions: Record<string, unknown> = {};
  for (const [name, [result, ...parameters]] of Object.entries(symbols)) {
    try {
      functions[name] = library.func(name, result, parameters);
    } catch (cause) {
      const found = `its library lacks ${name}, wanted CUDA 11.2 or newer`;
      const message = `Cannot use the run-time compiler: ${found}`;
      throw new CudaIpcError("NVRTC_NOT_FOUND", message, { cause });
    }
  }
  return functions as unknown as Libnvrtc;
}
