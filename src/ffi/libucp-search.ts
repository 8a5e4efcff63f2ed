/**
 * Finds and opens libucp: by `CUDA_IPC_UCX`, by the dynamic linker, in conda's environment, in
 * Python's site-packages. The first one that is new enough is used.
 */
import { existsSync, readdirSync } from "node:fs";
import { homedir } from "node:os";
import { delimiter, dirname, isAbsolute, join } from "node:path";
import { CudaIpcError, messageOf } from "../base/errors.js";
import { koffi } from "./koffi.js";
import type { LoadLibrary } from "./libcuda.js";
import { type Libucp, resolveLibucp } from "./libucp.js";

export interface FoundLibucp {
  readonly path: string;
  /** `1.22.0` */
  readonly version: string;
  readonly functions: Libucp;
}

const NAME = "libucp.so.0";
/** The first version whose structs and functions this package was tried with. */
const MINOR_MIN = 13;

const REMEDY =
  "Install UCX 1.13 or newer: `apt install libucx0`, `pip install libucx-cu13` or " +
  "`conda install -c conda-forge ucx`. For another place set CUDA_IPC_UCX to the path of " +
  `${NAME}.`;

let opened: FoundLibucp | undefined;

/** Opens the library once per process. @throws ENGINE_NOT_FOUND, naming everything it tried */
export function openLibucp(): FoundLibucp {
  opened ??= findLibucp(process.env, (name) => koffi().load(name));
  return opened;
}

/** @throws ENGINE_NOT_FOUND */
export function findLibucp(env: NodeJS.ProcessEnv, load: LoadLibrary): FoundLibucp {
  const failures: unknown[] = [];
  const found: string[] = [];
  for (const path of placesOf(env)) {
    try {
      restrain(env);
      return checked(path, resolveLibucp(load(path)));
    } catch (error) {
      failures.push(error);
      found.push(`${path} (${messageOf(error)})`);
    }
  }
  const tried = found.join(", ");
  const where = env.CUDA_IPC_UCX ? "CUDA_IPC_UCX=" : "";
  throw new CudaIpcError("ENGINE_NOT_FOUND", `Cannot open UCX, tried ${where}${tried}`, {
    cause: new AggregateError(failures),
    remedy: REMEDY,
  });
}

/** Paths in the order in which they are tried. Files are left out if they do not exist. */
export function placesOf(env: NodeJS.ProcessEnv): readonly string[] {
  if (env.CUDA_IPC_UCX) return [env.CUDA_IPC_UCX];
  const conda = env.CONDA_PREFIX ? [join(env.CONDA_PREFIX, "lib")] : [];
  const files = [...conda, ...wheelFolders(env)].map((folder) => join(folder, NAME));
  return [NAME, ...new Set(files.filter((file) => existsSync(file)))];
}

/** Where `pip install libucx-cu13` puts the library, for each Python that this process may mean. */
function wheelFolders(env: NodeJS.ProcessEnv): string[] {
  const prefixes = [
    ...(env.VIRTUAL_ENV ? [env.VIRTUAL_ENV] : []),
    // WHY not only beside a python3: that of a virtual environment links into a folder that this
    // user may not be allowed to enter.
    ...(env.PATH ?? "")
      .split(delimiter)
      .filter(isAbsolute)
      .map((folder) => dirname(folder)),
    join(homedir(), ".local"),
    "/usr/local",
  ];
  return prefixes
    .map((prefix) => join(prefix, "lib"))
    .flatMap((lib) => pythonsIn(lib).map((python) => join(lib, python)))
    .flatMap((python) => [join(python, "site-packages"), join(python, "dist-packages")])
    .map((packages) => join(packages, "libucx", "lib"));
}

function pythonsIn(folder: string): string[] {
  try {
    return readdirSync(folder).filter((name) => name.startsWith("python3"));
  } catch {
    return [];
  }
}

/**
 * WHY before the library is loaded: it reads these when it is. It would print to standard output,
 * where `--json` prints, and install handlers for signals that Node handles itself. Its hooks of
 * memory are tried by growing the heap by a page and shrinking it again, also where the growth
 * failed: then the last page of the heap is gone, which crashes the process. V8's code often lies
 * right behind the heap.
 */
function restrain(env: NodeJS.ProcessEnv): void {
  env.UCX_MEM_EVENTS ??= "n";
  env.UCX_LOG_LEVEL ??= "fatal";
  env.UCX_LOG_FILE ??= "stderr";
  env.UCX_HANDLE_ERRORS ??= "none";
  env.UCX_ERROR_SIGNALS ??= "";
  env.UCX_WARN_UNUSED_ENV_VARS ??= "n";
}

function checked(path: string, functions: Libucp): FoundLibucp {
  const [major, minor, release] = Array.from(
    { length: 3 },
    () => new Uint32Array(new ArrayBuffer(4)),
  ) as [Uint32Array, Uint32Array, Uint32Array];
  functions.ucp_get_version(major, minor, release);
  const version = `${major[0]}.${minor[0]}.${release[0]}`;
  if (major[0] === 1 && (minor[0] ?? 0) >= MINOR_MIN) return { path, version, functions };
  const message = `it is UCX ${version}, wanted 1.${MINOR_MIN} or newer of version 1`;
  throw new CudaIpcError("ENGINE_NOT_FOUND", message);
}
