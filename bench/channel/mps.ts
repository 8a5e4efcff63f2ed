/**
 * NVIDIA's Multi-Process Service during a measurement: a control daemon in its own folder. Only
 * processes with its environment use it. It ends with this process, even after a signal.
 * https://docs.nvidia.com/deploy/mps/index.html
 */
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const CONTROL = "nvidia-cuda-mps-control";
const COMMAND_LIMIT_MS = 20_000;
const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

export type MpsEnvironment = Readonly<
  Record<"CUDA_MPS_PIPE_DIRECTORY" | "CUDA_MPS_LOG_DIRECTORY", string>
>;

export class MultiProcessService {
  readonly env: MpsEnvironment;
  readonly #folder: string;
  readonly #stop = () => this[Symbol.dispose]();
  readonly #stopAndEnd = (signal: NodeJS.Signals) => {
    this.#stop();
    process.kill(process.pid, signal);
  };
  #running = true;

  private constructor(folder: string, env: MpsEnvironment) {
    this.#folder = folder;
    this.env = env;
    process.once("exit", this.#stop);
    for (const signal of SIGNALS) process.once(signal, this.#stopAndEnd);
  }

  /** Starts it, or returns why it cannot start. */
  static start(): MultiProcessService | string {
    const folder = mkdtempSync(join(tmpdir(), "cuda-ipc-mps-"));
    const env = { CUDA_MPS_PIPE_DIRECTORY: folder, CUDA_MPS_LOG_DIRECTORY: folder };
    const { error, status, stderr } = control(env, ["-d"]);
    if (error === undefined && status === 0) return new MultiProcessService(folder, env);
    rmSync(folder, { recursive: true, force: true });
    const isMissing = (error as NodeJS.ErrnoException | undefined)?.code === "ENOENT";
    return isMissing
      ? `no ${CONTROL}`
      : `${CONTROL} -d: ${error?.message ?? `ended with ${status}: ${stderr.trim()}`}`;
  }

  /** Whether any process has used it. The first process starts its server. */
  get wasUsed(): boolean {
    return /\d/.test(control(this.env, [], "get_server_list\n").stdout ?? "");
  }

  /** The logs of its control daemon and servers. */
  get log(): string {
    const files = ["control.log", "server.log"].map((name) => join(this.#folder, name));
    return files
      .flatMap((file) => (existsSync(file) ? [`${file}:\n${readFileSync(file, "utf8")}`] : []))
      .join("\n");
  }

  [Symbol.dispose](): void {
    if (!this.#running) return;
    this.#running = false;
    process.off("exit", this.#stop);
    for (const signal of SIGNALS) process.off(signal, this.#stopAndEnd);
    const pid = this.#controlPid();
    control(this.env, [], "quit -t 5\n");
    killAll(pid);
    rmSync(this.#folder, { recursive: true, force: true });
  }

  #controlPid(): number | undefined {
    try {
      return Number(readFileSync(join(this.#folder, `${CONTROL}.pid`), "utf8")) || undefined;
    } catch {
      return undefined;
    }
  }
}

/** A daemon that ignores `quit` would share the GPU after the benchmark. */
function killAll(pid: number | undefined): void {
  if (pid === undefined) return;
  try {
    if (!readFileSync(`/proc/${pid}/cmdline`, "utf8").includes(CONTROL)) return;
    const servers = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8")
      .split(" ")
      .filter(Boolean)
      .map(Number);
    for (const each of [...servers, pid]) process.kill(each, "SIGKILL");
  } catch {
    // It has ended.
  }
}

function control(env: MpsEnvironment, args: readonly string[], input = "") {
  return spawnSync(CONTROL, args, {
    input,
    env: { ...process.env, ...env },
    encoding: "utf8",
    timeout: COMMAND_LIMIT_MS,
  });
}
