/** A child process of the hub with a socket to it, of which the hub sends descriptors. */
import { type ChildProcess, spawn } from "node:child_process";
import type { Socket } from "node:net";
import { childEnvironment } from "../../base/child-environment.js";
import { lastError } from "../../base/last-error.js";
import { ownProgram } from "../../base/own-package.js";
import { acquireIn, releaseAll, type Scope } from "../../base/scope.js";
import type { OwnedFd } from "../../os/owned-fd.js";
import { PacketChannel } from "../../os/packet-channel.js";
import { type Packet, SeqpacketSocket } from "../../os/seqpacket.js";

/** How much is kept of what it writes about its death. */
const WORDS_MAX = 4096;

export interface HubChildEvents {
  onReady(): void;
  onPacket(packet: Packet): void;
  /**
   * It has ended, or its socket failed. May be called several times.
   * @param reason undefined if it ended without one
   */
  onFailure(reason: unknown): void;
  /** The process has ended, and everything that it had open is closed. */
  onExit(): void;
}

export class HubChild {
  readonly #child: ChildProcess;
  readonly #channel: PacketChannel;
  #ready = false;
  #words = "";

  /**
   * Takes messages at once. Neither the process nor its socket keeps the hub alive.
   * @param program its name from the root of the sources; it uses `HubLine`
   * @throws TOO_MANY_FDS, and what Node throws if it cannot start a process
   */
  constructor(program: string, events: HubChildEvents) {
    const { child, own } = acquireIn((scope) => start(scope, program));
    this.#child = child;
    child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      this.#words = (this.#words + text).slice(-WORDS_MAX);
    });
    child.once("exit", () => {
      if (this.#ready) events.onFailure(undefined);
      events.onExit();
    });
    child.once("error", (error) => {
      events.onFailure(error);
      events.onExit();
    });
    // After its last words. One that was never ready holds nothing, so it cannot block here.
    child.once("close", () => events.onFailure(new Error(this.#diedAtOnce())));
    this.#channel = new PacketChannel(own, {
      onPacket: (packet) => {
        if (this.#ready) events.onPacket(packet);
        else {
          this.#ready = true;
          events.onReady();
        }
      },
      onEnd: (reason) => {
        if (this.#ready || reason !== undefined) events.onFailure(reason);
      },
    });
    this.#channel.setReferenced(false);
  }

  /** False until it has said so. One that dies before has begun nothing. */
  get ready(): boolean {
    return this.#ready;
  }

  /** Undefined if it could not start. */
  get pid(): number | undefined {
    return this.#child.pid;
  }

  /** False after its end or `close()`. */
  get open(): boolean {
    return this.#channel.open;
  }

  get socket(): SeqpacketSocket {
    return this.#channel.socket;
  }

  /** As `PacketChannel.send`. */
  send(bytes: Uint8Array, fds: readonly OwnedFd[]): void {
    this.#channel.send(bytes, fds);
  }

  kill(): void {
    this.#child.kill("SIGKILL");
  }

  /** Hangs up. The process ends once it has done what was sent to it. */
  close(): void {
    releaseAll([() => this.#channel.close(), () => this.#child.stderr?.destroy()]);
  }

  #diedAtOnce(): string {
    const words = lastError(this.#words);
    return words === "" ? "it ended at once" : `it ended at once: ${words}`;
  }
}

function start(
  scope: Scope,
  program: string,
): { readonly child: ChildProcess; readonly own: SeqpacketSocket } {
  const [own, its] = SeqpacketSocket.pair();
  // The process ends too: it notices that the hub's end is closed.
  scope.own(own, () => own.close());
  try {
    return { own, child: startProcess(program, its) };
  } finally {
    its.close();
  }
}

function startProcess(program: string, socket: SeqpacketSocket): ChildProcess {
  // Nothing of others: what it inherits stays open as long as it blocks.
  const stdio = ["ignore", "ignore", "pipe", socket.fd.number] as const;
  const child = spawn(process.execPath, [ownProgram(program) ?? program], {
    cwd: "/",
    env: childEnvironment(),
    stdio: [...stdio],
  });
  child.unref();
  // The cast: it is a socket, and the types say less.
  (child.stderr as Socket | null)?.unref();
  return child;
}
