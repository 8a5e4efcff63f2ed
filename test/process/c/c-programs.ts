/**
 * Compiles the client in C with a program, with sanitizers if the compiler has them. Programs are
 * kept in a cache, because compiling them takes longer than most tests.
 */
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { PeerProcess } from "../../support/peer-process.js";

const root = fileURLToPath(new URL("../../../../", import.meta.url));
const kept = join(root, "node_modules/.cache/cuda-ipc/c-programs");
const FLAGS = ["-std=c11", "-O1", "-g", "-Wall", "-Wextra", "-Wpedantic", "-Werror"];
const CLIENT = "examples/c/cuda_ipc.c";
const ACTORS = "test/process/c/actors";
/** All that a program may include or be made of. */
const SOURCE_FOLDERS = ["include", "examples/c", ACTORS];
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
  readonly #sanitizers: readonly string[];

  /** @param sanitize false for a GPU: its driver does what the sanitizers refuse */
  constructor({ sanitize = true } = {}) {
    this.#sanitizers = sanitize && hasSanitizers() ? SANITIZERS : [];
  }

  get sanitized(): boolean {
    return this.#sanitizers.length > 0;
  }

  /** The path of a program that uses the client. @param source from the root of the project */
  path(source: string): string {
    return this.#compiled([source, CLIENT]);
  }

  /** The path of a program that includes the client's source. */
  including(actor: "gives-up.c" | "internals.c" | "restless.c"): string {
    return this.#compiled([`${ACTORS}/${actor}`]);
  }

  /** Runs the peer of these tests. */
  peer(socket: string, command: string, ...args: string[]): PeerProcess {
    return new PeerProcess(this.#peer(), [socket, command, ...args]);
  }

  /** As `peer`, with what it makes on a GPU. */
  peerOn(device: string, socket: string, command: string, ...args: string[]): PeerProcess {
    return new PeerProcess(this.#peer(), [socket, command, ...args], { CUDA_IPC_DEVICE: device });
  }

  #peer(): string {
    const sources = readdirSync(join(root, ACTORS)).filter((file) => /^peer.*\.c$/.test(file));
    return this.#compiled([...sources.map((file) => `${ACTORS}/${file}`), CLIENT]);
  }

  #compiled(sources: readonly string[]): string {
    const files = sources.map((file) => join(root, file));
    const include = `-I${join(root, "include")}`;
    return compiled([...FLAGS, ...this.#sanitizers, include, ...files]);
  }
}

/** Compiles if no program was kept that came from the same sources with the same arguments. */
function compiled(args: readonly string[], input = ""): string {
  const hash = createHash("sha256").update(JSON.stringify([compiler, args, input]));
  for (const folder of SOURCE_FOLDERS)
    for (const file of readdirSync(join(root, folder)).sort())
      if (/\.[ch]$/.test(file)) hash.update(readFileSync(join(root, folder, file)));
  const result = join(kept, hash.digest("hex").slice(0, 16));
  if (existsSync(result)) return result;
  mkdirSync(kept, { recursive: true });
  // Another test may compile the same at this moment.
  const temporary = `${result}-${process.pid}`;
  const options = { encoding: "utf8", input } as const;
  const { status, stderr } = spawnSync(String(compiler), [...args, "-o", temporary], options);
  if (status !== 0) throw new Error(`${compiler} ended with ${status}: ${stderr}`);
  renameSync(temporary, result);
  return result;
}

/** Whether a sanitized program runs here: its leak check needs ptrace. */
function hasSanitizers(): boolean {
  try {
    const probe = compiled([...SANITIZERS, "-x", "c", "-"], "int main(void) { return 0; }");
    return spawnSync(probe).status === 0;
  } catch {
    return false;
  }
}
