/** Compiles the client in C with a program, with sanitizers where the compiler has them. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { PeerProcess } from "../../support/peer-process.js";

const root = fileURLToPath(new URL("../../../../", import.meta.url));
const FLAGS = ["-std=c11", "-O1", "-g", "-Wall", "-Wextra", "-Wpedantic", "-Werror"];
const PEER = "test/process/c/actors/peer.c";
const SANITIZERS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"];

const compiler = ["cc", "gcc", "clang"].find((name) => spawnSync(name, ["--version"]).status === 0);

/** Why these tests are skipped, or false. */
export const skip = whyNot();

function whyNot(): string | false {
  if (compiler !== undefined) return false;
  if (process.env.REQUIRE_CC === "1") throw new Error("REQUIRE_CC=1, but there is no C compiler");
  return "no C compiler (cc, gcc, clang)";
}

/** Programs of one test file, compiled when they are first used. */
export class CPrograms {
  readonly #folder = mkdtempSync(join(tmpdir(), "cuda-ipc-c-"));
  readonly #compiled = new Map<string, string>();
  readonly #sanitizers: readonly string[];

  /** @param sanitize false for a GPU: its driver does what the sanitizers refuse */
  constructor({ sanitize = true } = {}) {
    this.#sanitizers = sanitize && this.#hasSanitizers() ? SANITIZERS : [];
  }

  get sanitized(): boolean {
    return this.#sanitizers.length > 0;
  }

  /** The path of a program. @param source from the root of the project */
  path(source: string): string {
    const known = this.#compiled.get(source);
    if (known !== undefined) return known;
    const result = join(this.#folder, `program-${this.#compiled.size}`);
    const files = [source, "examples/c/cuda_ipc.c"].map((file) => join(root, file));
    const include = `-I${join(root, "include")}`;
    this.#compile([...FLAGS, ...this.#sanitizers, include, ...files, "-o", result]);
    this.#compiled.set(source, result);
    return result;
  }

  /** Runs the peer of these tests. */
  peer(socket: string, command: string, ...args: string[]): PeerProcess {
    return new PeerProcess(this.path(PEER), [socket, command, ...args]);
  }

  /** As `peer`, with what it makes on a GPU. */
  peerOn(device: string, socket: string, command: string, ...args: string[]): PeerProcess {
    const env = { CUDA_IPC_DEVICE: device };
    return new PeerProcess(this.path(PEER), [socket, command, ...args], env);
  }

  [Symbol.dispose](): void {
    rmSync(this.#folder, { recursive: true, force: true });
  }

  #compile(args: readonly string[]): void {
    const { status, stderr } = spawnSync(String(compiler), args, { encoding: "utf8" });
    if (status !== 0) throw new Error(`${compiler} ended with ${status}: ${stderr}`);
  }

  /** Whether a sanitized program runs here: its leak check needs ptrace. */
  #hasSanitizers(): boolean {
    const probe = join(this.#folder, "probe");
    const args = [...SANITIZERS, "-x", "c", "-", "-o", probe];
    const input = "int main(void) { return 0; }";
    return (
      spawnSync(String(compiler), args, { input }).status === 0 && spawnSync(probe).status === 0
    );
  }
}
