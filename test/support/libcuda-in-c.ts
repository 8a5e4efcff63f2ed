/**
 * The libcuda in C of the conformance suite, for tests without a GPU. One compilation serves all
 * processes of a test run.
 */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
} from "node:fs";
import { join } from "node:path";
import { it } from "node:test";
import { fileURLToPath } from "node:url";
import { createCudaDriver } from "../../src/driver/cuda/cuda-driver.js";
import type { GpuDriver } from "../../src/driver/gpu-driver.js";
import { koffi } from "../../src/ffi/koffi.js";
import type { SharedLibrary } from "../../src/ffi/libcuda.js";
import { type CudaHeader, findCudaHeader } from "../unit/ffi/cuda-header.js";

const SOURCES = fileURLToPath(new URL("../../../test/conformance/libcuda-in-c", import.meta.url));
const COMPILED = fileURLToPath(new URL("../../libcuda-in-c", import.meta.url));
const LIBRARY = "libcuda.so.1";

export interface LibcudaInC {
  /** The folder of the library, for `LD_LIBRARY_PATH`. */
  readonly folder: string;
  load(): SharedLibrary;
  openDriver(): GpuDriver;
}

let found: LibcudaInC | string | undefined;

/** The compiled library, or the reason why there is none here. */
function libcudaInC(): LibcudaInC | string {
  found ??= findLibrary();
  return found;
}

/** Like `libcudaInC`. Fails the test if there is none. */
export function expectLibcudaInC(): LibcudaInC {
  const library = libcudaInC();
  return typeof library === "string" ? assert.fail(library) : library;
}

/** Why tests of the library are skipped. False if they run, or must fail because it is required. */
export function skipLibcudaInC(): string | false {
  const library = libcudaInC();
  return typeof library === "string" && process.env.REQUIRE_CUDA_HEADER !== "1" ? library : false;
}

/** Declares tests that use the library, or one test that says why there is none. */
export function withLibcudaInC(title: string, declare: (library: LibcudaInC) => void): void {
  const library = libcudaInC();
  if (typeof library === "string")
    it(title, { skip: skipLibcudaInC() }, () => assert.fail(library));
  else {
    // WHY once before any test: this libcuda opens files for the life of the process, which are no
    // leak of a test.
    library.openDriver().close();
    declare(library);
  }
}

function findLibrary(): LibcudaInC | string {
  const header = existsSync(SOURCES) ? findCudaHeader() : `no ${SOURCES}`;
  if (typeof header === "string") return header;
  const folder = compiled(header);
  const load = () => koffi().load(join(folder, LIBRARY));
  return { folder, load, openDriver: () => createCudaDriver({ load }) };
}

/** Compiles unless another process has. The name of the folder changes with the sources. */
function compiled(header: CudaHeader): string {
  const hash = createHash("sha256").update(header.folder);
  for (const name of readdirSync(SOURCES).sort()) hash.update(readFileSync(join(SOURCES, name)));
  const folder = join(COMPILED, hash.digest("hex").slice(0, 16));
  const library = join(folder, LIBRARY);
  if (existsSync(library)) return folder;
  mkdirSync(folder, { recursive: true });
  // WHY renamed: another process must not load half a library.
  const own = mkdtempSync(join(COMPILED, "new-"));
  try {
    header.compile(join(SOURCES, "libcuda.c"), join(own, LIBRARY), ["-shared", "-fPIC", "-O1"]);
    renameSync(join(own, LIBRARY), library);
  } finally {
    rmSync(own, { recursive: true });
  }
  return folder;
}
