/** What a demo runs on: a hub of its own in a temporary folder, the actors, and one time limit. */
import { connect } from "../../client/connect.js";
import type { Hub } from "../../client/hub.js";
import type { CommandContext } from "../command-context.js";
import type { HubStatus } from "../join-hub.js";
import { endHub } from "../join-hub.js";
import { withTemporarySocket } from "../temporary-folder.js";
import type { Terminal } from "../terminal/terminal.js";
import { chosenDeviceWords } from "../terminal/words.js";
import { ActorProcess, type ActorRole } from "./actor-process.js";
import { sayStep } from "./say-step.js";
import { withinLimit } from "./time-limit.js";

export interface StageOptions {
  readonly device?: string | undefined;
  readonly elements: number;
}

const TIME_LIMIT_MS = 60_000;
/** How long the hub outlives a demo that was killed. */
const HUB_IDLE_MS = 2_000;

export class Stage {
  readonly hub: Hub;
  /** Aborted by Ctrl-C and by the time limit. */
  readonly signal: AbortSignal;
  /** `host (auto: no GPU)` */
  readonly deviceWords: string;
  readonly #device: string;
  readonly #elements: number;
  readonly #terminal: Terminal;
  readonly #actors: ActorProcess[] = [];

  private constructor(hub: Hub, options: StageOptions, signal: AbortSignal, terminal: Terminal) {
    const device = hub.device(options.device);
    this.hub = hub;
    this.signal = signal;
    this.deviceWords = chosenDeviceWords(device);
    this.#device = device.name;
    this.#elements = options.elements;
    this.#terminal = terminal;
  }

  /**
   * Starts a hub and runs the play. Always ends the actors and the hub. Resolves to the reason if
   * this machine lacks a mechanism that the play needs.
   */
  static async run(
    options: StageOptions,
    context: CommandContext,
    play: (stage: Stage) => Promise<void>,
  ): Promise<string | undefined> {
    return withinLimit(TIME_LIMIT_MS, context.signal, async (signal) => {
      await withTemporarySocket("cuda-ipc-demo-", (socket) =>
        Stage.#runAt(socket, options, signal, context.terminal, play),
      );
      return undefined;
    });
  }

  static async #runAt(
    socket: string,
    options: StageOptions,
    signal: AbortSignal,
    terminal: Terminal,
    play: (stage: Stage) => Promise<void>,
  ): Promise<void> {
    await using hub = await connect({
      socket,
      hubIdleMs: HUB_IDLE_MS,
      program: "cuda-ipc demo",
      signal,
    });
    try {
      const stage = new Stage(hub, options, signal, terminal);
      try {
        await play(stage);
      } finally {
        await Promise.all(stage.#actors.map((actor) => actor.kill()));
      }
    } finally {
      await endHub(hub, { force: true });
    }
  }

  /** Starts an actor, and prints its steps under the title. */
  start(role: ActorRole, title: string = role): ActorProcess {
    const part = { socket: this.hub.socketPath, device: this.#device, elements: this.#elements };
    const onSay = (from: ActorProcess, text: string) => this.say(from.role, from.pid, text);
    const actor = ActorProcess.start(role, part, { title, signal: this.signal, onSay });
    this.#actors.push(actor);
    return actor;
  }

  say(who: string, pid: number, text: string): void {
    sayStep(this.#terminal, who, pid, text);
  }

  sayHub(text: string, { pid }: Pick<HubStatus, "pid">): void {
    this.say("hub", pid, text);
  }

  /** Waits until the hub's status satisfies the condition. */
  async hubStatus(isWanted: (status: HubStatus) => boolean): Promise<HubStatus> {
    for (;;) {
      const status = await this.hub.status({ signal: this.signal });
      if (isWanted(status)) return status;
      await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    }
  }
}

const POLL_MS = 5;
