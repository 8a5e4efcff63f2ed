/**
 * The child process that serves the metrics of a hub. It is an ordinary client, so scrapes cost the
 * hub no more than any other client, and a failure of the web server cannot harm the hub.
 */
import { type ChildProcess, spawn } from "node:child_process";
import type { Socket } from "node:net";
import { messageOf } from "../base/errors.js";
import type { Log } from "../base/log-events.js";
import { GrowingPause } from "../base/pause.js";

export const METRICS_PATH = "/metrics";

/** What the child tells once it listens. */
export interface Serving {
  readonly url: string;
}

/** A child that lives for less counts as broken: the next one waits longer. */
const GOOD_LIFE_MS = 10_000;
/** WHY long: a port that is taken stays taken, and each try starts a process. */
const PAUSE_MS_MAX = 30_000;
const ERROR_CHARACTERS_MAX = 1000;

export interface MetricsProcessOptions {
  /** As `--listen` takes it. */
  readonly address: string;
  /** The hub's socket. */
  readonly socketPath: string;
  readonly log: Log;
}

export class MetricsProcess {
  readonly #options: MetricsProcessOptions;
  readonly #pause = new GrowingPause(PAUSE_MS_MAX);
  #child: ChildProcess | undefined;
  #url: string | undefined;
  #timer: NodeJS.Timeout | undefined;

  /** Starts the child, and replaces it if it ends. */
  constructor(options: MetricsProcessOptions) {
    this.#options = options;
    this.#start();
  }

  /** Undefined while none listens. */
  get url(): string | undefined {
    return this.#url;
  }

  close(): void {
    clearTimeout(this.#timer);
    const child = this.#child;
    this.#child = undefined;
    child?.kill();
  }

  [Symbol.dispose](): void {
    this.close();
  }

  #start(): void {
    const { address, socketPath } = this.#options;
    const words = ["metrics", "--listen", address, "--socket", socketPath];
    const startedMs = performance.now();
    // The channel ends with this process, however it ends, and the child with the channel.
    const child = spawn(process.execPath, [process.argv[1] ?? "", ...words], {
      stdio: ["ignore", "ignore", "pipe", "ipc"],
    });
    this.#child = child;
    child.unref();
    child.channel?.unref();
    let said = "";
    // All are unreferenced, so that they never keep the hub's process running.
    (child.stderr as Socket | null)?.unref();
    child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      said = (said + text).slice(0, ERROR_CHARACTERS_MAX);
    });
    child.on("message", (message) => this.#onServing(child, message));
    const onEnd = (reason: string) => {
      child.removeAllListeners();
      // A child that could not be started still reports errors.
      child.on("error", () => {});
      this.#onEnd(child, reason, performance.now() - startedMs);
    };
    child.once("error", (error) => onEnd(messageOf(error)));
    child.once("close", (code, signal) => {
      onEnd(said.split("\n")[0] || `it ended with ${signal ?? code}`);
    });
  }

  #onServing(child: ChildProcess, message: unknown): void {
    const { url } = message as Partial<Serving>;
    if (child !== this.#child || typeof url !== "string") return;
    this.#url = url;
    this.#options.log("metrics-started", `metrics are at ${url}`, { pid: child.pid });
  }

  #onEnd(child: ChildProcess, reason: string, livedMs: number): void {
    if (child !== this.#child) return;
    this.#child = undefined;
    this.#url = undefined;
    if (livedMs > GOOD_LIFE_MS) this.#pause.reset();
    const { pid } = child;
    const { address, log } = this.#options;
    log("metrics-ended", `metrics at ${address} are not served, another try follows: ${reason}`, {
      pid,
    });
    this.#timer = setTimeout(() => this.#start(), this.#pause.nextMs());
    this.#timer.unref();
  }
}
