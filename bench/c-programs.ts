/** Compiles the programs of bench/c when they are first used, or says why it cannot. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { findCudaHeader } from "../test/unit/ffi/cuda-header.js";
import type { Program } from "./processes.js";

const sources = fileURLToPath(new URL("../../bench/c/", import.meta.url));
const include = fileURLToPath(new URL("../../include/", import.meta.url));
const client = fileURLToPath(new URL("../../examples/c/cuda_ipc.c", import.meta.url));
const FLAGS = ["-O2", "-Wall", `-I${include}`];
/** Programs that need no GPU, because the CPU does the work of a stream. */
const onHost: ReadonlySet<string> = new Set([
  "timeline-ping-pong",
  "signal-to-cpu",
  "channel-copies",
  "channel-kernels",
  ...["channel-throughput", "channel-round-trip", "channel-wake", "channel-layout", "channel-peer"],
  ...["client-open", "client-throughput", "network", "relay"],
]);

type Compile = (files: readonly string[], result: string) => void;

export class CPrograms {
  readonly #device: string;
  readonly #folder = mkdtempSync(join(tmpdir(), "cuda-ipc-bench-c-"));
  readonly #compiled = new Map<string, string>();
  readonly #compile: Compile | string;

  /** @param device the name of a `Device`: `host` or `cuda:N` */
  constructor(device: string) {
    this.#device = device;
    this.#compile = device === "host" ? hostCompiler() : cudaCompiler();
  }

  /** How to start a program, or why it cannot start. */
  program(name: string, iterations: number, extra: readonly string[] = []): Program | string {
    const ordinal = this.#device === "host" ? "0" : this.#device.slice("cuda:".length);
    return this.programWith(name, [String(iterations), ordinal, ...extra]);
  }

  /** Like `program`, with other arguments. */
  programWith(name: string, args: readonly string[]): Program | string {
    if (typeof this.#compile === "string") return this.#compile;
    if (this.#device === "host" && !onHost.has(name)) return "the loop in C needs a GPU";
    return { command: this.#binary(name, this.#compile), args };
  }

  [Symbol.dispose](): void {
    rmSync(this.#folder, { recursive: true, force: true });
  }

  #binary(name: string, compile: Compile): string {
    const known = this.#compiled.get(name);
    if (known !== undefined) return known;
    const binary = join(this.#folder, name);
    const more = name.startsWith("client-") ? [client] : [];
    compile([join(sources, `${name}.c`), ...more], binary);
    this.#compiled.set(name, binary);
    return binary;
  }
}

function cudaCompiler(): Compile | string {
  const header = findCudaHeader();
  if (typeof header === "string") return header;
  return ([source = "", ...more], result) =>
    header.compile(source, result, [...FLAGS, ...more, "-Wl,--no-as-needed", "-ldl"]);
}

function hostCompiler(): Compile | string {
  const compiler = ["cc", "gcc", "clang"].find(
    (name) => spawnSync(name, ["--version"]).status === 0,
  );
  if (compiler === undefined) return "no C compiler (cc, gcc, clang)";
  return (files, result) => {
    const { status, stderr } = spawnSync(compiler, [...FLAGS, "-DHOST", "-o", result, ...files], {
      encoding: "utf8",
    });
    if (status !== 0) throw new Error(`${compiler} ended with ${status}: ${stderr}`);
  };
}
