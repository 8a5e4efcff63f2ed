/** A machine of the demo: a folder with a hub, its bridge, and actors that use them. */
import { mkdirSync } from "node:fs";
import { dirname } from "node:path";
import { Deadline } from "../../../base/deadline.js";
import { defaults } from "../../../base/limits.js";
import { ownProgram } from "../../../base/own-package.js";
import { askBridge } from "../../../client/connection/bridge-call.js";
import type { ActorPart } from "../actor-messages.js";
import { ActorProcess, type ActorRole } from "../actor-process.js";
import { killProcessesIn, processesIn } from "./folder-processes.js";
import { StartedProgram } from "./started-program.js";

export interface MachinesStage {
  readonly device: string;
  readonly elements: number;
  readonly natsUrl: string;
  readonly signal: AbortSignal;
  say(who: string, pid: number, text: string): void;
}

const POLL_MS = 100;

export class DemoMachine {
  readonly name: string;
  readonly bridge: StartedProgram;
  readonly #stage: MachinesStage;
  readonly #socket: string;
  /** `UCX 1.22.0 over tcp` */
  readonly #ucx: string;

  private constructor(
    name: string,
    socket: string,
    bridge: StartedProgram,
    ucx: string,
    stage: MachinesStage,
  ) {
    this.name = name;
    this.bridge = bridge;
    this.#ucx = ucx;
    this.#stage = stage;
    this.#socket = socket;
  }

  /** Resolves when other machines see it. @throws what its bridge says */
  static async start(name: string, socket: string, stage: MachinesStage): Promise<DemoMachine> {
    mkdirSync(dirname(socket), { mode: 0o700 });
    const args = ["bridge", "--nats", stage.natsUrl, "--machine", name, "--announce", "*"];
    const command = [process.execPath, ownProgram("cli/launch.cjs") ?? "cuda-ipc", ...args];
    const where = ["--socket", socket, "--device", stage.device, "--interface", "lo"];
    // WHY tcp: through shared memory, the machines would not be apart.
    const env = { ...process.env, UCX_TLS: process.env.UCX_TLS ?? "tcp" };
    const bridge = StartedProgram.start(`the bridge of ${name}`, [...command, ...where], env);
    const [, ucx] = await bridge.printed(/is bridged by NATS \S+ and (UCX \S+)/, stage.signal);
    const over = `${ucx} over ${env.UCX_TLS}`;
    return new DemoMachine(name, socket, bridge, over, stage);
  }

  play(role: ActorRole): ActorProcess {
    const { device, elements, signal, say } = this.#stage;
    const part: ActorPart = { socket: this.#socket, device, elements };
    const onSay = (from: ActorProcess, text: string) => say(from.role, from.pid, text);
    return ActorProcess.start(role, part, { title: `${this.name} ${role}`, signal, onSay });
  }

  /** Kills all its processes. Returns which they were: `bridge 12, hub 13`. */
  async kill(): Promise<string> {
    const folder = dirname(this.#socket);
    const killed = processesIn(folder).map((it) => `${jobOf(it.command)} ${it.pid}`);
    await killProcessesIn(folder);
    return killed.join(", ");
  }

  sayStart(): void {
    const words = `machine "${this.name}" has a hub of its own, bridged by ${this.#ucx}`;
    this.#stage.say(`${this.name} bridge`, this.bridge.pid, words);
  }

  /** Waits until its bridge knows that another machine is gone. */
  async knowsGone(machine: string): Promise<void> {
    const { signal } = this.#stage;
    for (;;) {
      const deadline = new Deadline("ask the bridge", { signal }, defaults.requestTimeoutMs);
      const { machines } = await askBridge(this.#socket, deadline);
      const found = machines.find((it) => it.machine === machine);
      if (found?.alive !== true) return;
      await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    }
  }
}

function jobOf(command: string): string {
  if (command.includes("/keeper/main.js")) return "keeper";
  if (command.includes("/hub/main.js")) return "hub";
  return /\/actors\/(\w+)\.js/.exec(command)?.[1] ?? "bridge";
}
