/**
 * Stands in for systemd. It starts a service with NOTIFY_SOCKET and LISTEN_FDS, stores its
 * descriptors, passes them to the next process, and drops removed ones. Like systemd, it stores
 * each open file once, under any name.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { fstatSync } from "node:fs";
import { libc } from "../../src/ffi/libc.js";
import { FdWatch } from "../../src/os/fd-watch.js";
import type { OwnedFd } from "../../src/os/owned-fd.js";
import { SOCK_NONBLOCK } from "../../src/os/socket-layout.js";
import { StandInManager } from "./stand-in-manager.js";
import { soon, until } from "./until.js";

const F_GETFL = 3;
const F_SETFL = 4;

export interface Stored {
  readonly name: string;
  readonly fd: OwnedFd;
}

export class StandInSystemd {
  readonly #manager: StandInManager;
  readonly #address: string;
  readonly #command: readonly string[];
  readonly #env: NodeJS.ProcessEnv;
  readonly #watch: FdWatch;
  /** Descriptors that the manager passes in addition, as a socket unit does. */
  readonly passed: Stored[] = [];
  readonly stored: Stored[] = [];
  /** All messages, except those that store or remove descriptors. */
  readonly states: string[] = [];
  output = "";
  #child: ChildProcess | undefined;
  #exited: Promise<unknown> = Promise.resolve();

  constructor(address: string, command: readonly string[], env: NodeJS.ProcessEnv) {
    this.#address = address;
    this.#command = command;
    this.#env = env;
    this.#manager = new StandInManager(address);
    this.#watch = new FdWatch(this.#manager.fd, () => this.#readAll());
  }

  get pid(): number {
    return this.#child?.pid ?? 0;
  }

  names(): string[] {
    return this.stored.map(({ name }) => name).sort();
  }

  /** Starts the service with all stored descriptors, and resolves once it is ready. */
  async start(): Promise<void> {
    const all = [...this.passed, ...this.stored];
    const names = all.map(({ name }) => name).join(":");
    const variables =
      all.length === 0 ? "" : `LISTEN_PID=$$ LISTEN_FDS=${all.length} LISTEN_FDNAMES=${names}`;
    const script = `export NOTIFY_SOCKET=${this.#address} ${variables}; exec "$@"`;
    const child = spawn("sh", ["-c", script, "sh", ...this.#command], {
      env: this.#env,
      stdio: ["ignore", "pipe", "pipe", ...all.map(({ fd }) => fd.number)],
    });
    for (const stream of [child.stdout, child.stderr]) {
      stream?.setEncoding("utf8").on("data", (text: string) => {
        this.output += text;
      });
    }
    this.#child = child;
    this.#exited = once(child, "close");
    const before = this.states.length;
    await until(`the service is ready: ${this.output}`, () =>
      this.states.slice(before).some((state) => state.includes("READY=1")),
    );
  }

  async end(signal: NodeJS.Signals): Promise<unknown> {
    this.#child?.kill(signal);
    return this.exited();
  }

  /** Waits for the end of the service. @returns its exit code or signal */
  async exited(): Promise<unknown> {
    const [code, by] = (await soon("the service ends", this.#exited)) as [
      number | null,
      string | null,
    ];
    return by ?? code;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#child !== undefined) await this.end("SIGKILL");
    this.#watch.close();
    for (const { fd } of [...this.stored, ...this.passed]) fd.close();
    this.#manager[Symbol.dispose]();
  }

  #readAll(): void {
    for (let told = this.#manager.read(); told !== undefined; told = this.#manager.read()) {
      const name = /^FDNAME=(.*)$/m.exec(told.text)?.[1] ?? "";
      if (told.text.startsWith("FDSTORE=1")) {
        for (const fd of told.fds) {
          if (this.stored.some((one) => isSameOpenFile(one.fd, fd))) fd.close();
          else this.stored.push({ name, fd });
        }
      } else if (told.text.startsWith("FDSTOREREMOVE=1")) {
        const kept = this.stored.splice(0);
        for (const one of kept) {
          if (one.name === name) one.fd.close();
          else this.stored.push(one);
        }
      } else {
        this.states.push(told.text);
      }
    }
  }
}

/**
 * WHY by changing flags: they belong to the open file, so all its descriptors show them. systemd
 * uses kcmp, which the kernel may refuse.
 */
function isSameOpenFile(one: OwnedFd, other: OwnedFd): boolean {
  const [first, second] = [one, other].map(({ number }) => fstatSync(number));
  if (first?.ino !== second?.ino || first?.dev !== second?.dev) return false;
  const [before, otherBefore] = [flagsOf(one), flagsOf(other)];
  libc().fcntl(one.number, F_SETFL, before ^ SOCK_NONBLOCK);
  const isSame = flagsOf(other) !== otherBefore;
  libc().fcntl(one.number, F_SETFL, before);
  return isSame;
}

function flagsOf(fd: OwnedFd): number {
  return libc().fcntl(fd.number, F_GETFL, 0);
}
