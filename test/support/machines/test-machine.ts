/** A "machine": a hub in its own folder, and a bridge as the command line starts it. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import {
  closeSync,
  existsSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import type { Readable } from "node:stream";
import { fileURLToPath } from "node:url";
import { Deadline } from "../../../src/base/deadline.js";
import type { defaults } from "../../../src/base/limits.js";
import type { ConnectOptions } from "../../../src/client/connect.js";
import { askBridge } from "../../../src/client/connection/bridge-call.js";
import type { Hub } from "../../../src/client/hub.js";
import type { BridgeStatus } from "../../../src/wire/bridge-messages.js";
import { untilStopped } from "../process-state.js";
import { TestHub, type TestHubOptions } from "../test-hub.js";
import { soon, until } from "../until.js";
import {
  type BridgeOrder,
  holdFile,
  type NumberedOrder,
  orderFile,
  reachedFile,
  removed,
} from "./bridge-orders.js";
import type { TestNats } from "./test-nats.js";

const PROGRAM = fileURLToPath(new URL("../../../src/cli/launch.cjs", import.meta.url));
const INSIDE = new URL("./inside-bridge.js", import.meta.url).href;

export type BridgeLimits = { readonly [Name in keyof typeof defaults]?: number };

export interface TestMachineOptions {
  readonly args?: readonly string[];
  /** Other limits than `defaults` for the bridge. */
  readonly limits?: BridgeLimits;
  readonly env?: Readonly<Record<string, string>>;
  readonly hub?: TestHubOptions;
  /** A file to which the bridge writes its log. Then the test cannot read it. */
  readonly logTo?: string;
  /** A command that runs the bridge, such as `ip netns exec`. */
  readonly within?: readonly string[];
  /** Default: `lo`, or `eth0` in a network namespace. */
  readonly networkInterface?: string;
}

export class TestMachine {
  readonly name: string;
  readonly hub: TestHub;
  readonly #nats: Pick<TestNats, "url">;
  readonly #options: TestMachineOptions;
  #bridge: ChildProcess | undefined;
  #log = "";
  #isBridged = false;
  #orders = 0;

  private constructor(
    name: string,
    hub: TestHub,
    nats: Pick<TestNats, "url">,
    options: TestMachineOptions,
  ) {
    this.name = name;
    this.hub = hub;
    this.#nats = nats;
    this.#options = options;
  }

  /** Resolves once the bridge is seen by others. */
  static async start(
    name: string,
    nats: Pick<TestNats, "url">,
    options: TestMachineOptions = {},
  ): Promise<TestMachine> {
    const machine = new TestMachine(name, await TestHub.start(options.hub), nats, options);
    try {
      machine.startBridge();
      await machine.bridged();
      return machine;
    } catch (error) {
      await machine[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** What the bridge has printed so far. */
  get log(): string {
    return this.#log;
  }

  get isBridgeRunning(): boolean {
    return this.#bridge?.exitCode === null && this.#bridge.signalCode === null;
  }

  get bridgePid(): number {
    return this.#bridge?.pid ?? 0;
  }

  /** @param limits instead of those of the machine */
  startBridge(more: readonly string[] = [], limits = this.#options.limits): void {
    const { args = [], env = {}, within = [], logTo } = this.#options;
    const { networkInterface = within.length === 0 ? "lo" : "eth0" } = this.#options;
    const names = ["--machine", this.name, "--interface", networkInterface];
    const bridge = ["bridge", ...names, "--nats", this.#nats.url, ...args, ...more];
    const words = [...within, process.execPath, PROGRAM, ...bridge, "--socket", this.hub.socket];
    // WHY tcp: machines share no memory.
    const environment: NodeJS.ProcessEnv = {
      ...process.env,
      UCX_TLS: "tcp",
      CUDA_IPC_TEST_LIMITS: JSON.stringify(limits ?? {}),
      CUDA_IPC_TEST_ORDERS: this.hub.folder.path,
      ...env,
      NODE_OPTIONS: [env.NODE_OPTIONS, `--import=${INSIDE}`].join(" "),
    };
    delete environment.NODE_TEST_CONTEXT;
    const log = logTo === undefined ? undefined : openSync(logTo, "a");
    const child = spawn(words[0] as string, words.slice(1), {
      env: environment,
      stdio: ["ignore", log ?? "pipe", "pipe"],
    });
    if (log !== undefined) closeSync(log);
    this.#bridge = child;
    this.#log = "";
    this.#isBridged = false;
    for (const stream of [child.stdout, child.stderr])
      stream?.setEncoding("utf8").on("data", (text: string) => {
        this.#log += text;
      });
  }

  /** From now on `says` waits for what the bridge says anew. */
  forgetLog(): void {
    this.#log = "";
  }

  /** Until the log has this text. Fails if the bridge ends before. */
  async says(text: string): Promise<void> {
    await until(`the bridge of ${this.name} says "${text}"`, () => {
      if (this.#log.includes(text)) return true;
      const child = this.#bridge;
      if (child?.exitCode !== null || child.signalCode !== null) {
        const end = child?.signalCode ?? child?.exitCode;
        throw new Error(`The bridge of ${this.name} has ended (${end}): ${this.#log}`);
      }
      return false;
    });
  }

  async bridged(): Promise<void> {
    if (this.#isBridged) return;
    if (this.#options.logTo === undefined) await this.says("is bridged by");
    else await this.#answers();
    this.#isBridged = true;
  }

  async #answers(): Promise<void> {
    const answers = async () => (await this.run("bridge", "status")).code === 0;
    await until(`the bridge of ${this.name} answers`, answers);
  }

  /** As `cuda-ipc bridge status`. WHY not the command: to start it takes 0.4 s of CPU time. */
  status(): Promise<BridgeStatus> {
    return askBridge(this.hub.socket, new Deadline("ask the bridge", {}, 10_000));
  }

  /** Runs a command of the command line on this machine. */
  async run(...args: readonly string[]): Promise<{ code: number; out: string; error: string }> {
    const env = {
      CUDA_IPC_BRIDGE_INTERFACE: "lo",
      ...process.env,
      CUDA_IPC_SOCKET: this.hub.socket,
    };
    const child = spawn(process.execPath, [PROGRAM, ...args], { env });
    const [out, error] = [textOf(child.stdout), textOf(child.stderr)];
    const [code] = (await soon(`"${args.join(" ")}" ends`, once(child, "close"))) as [number];
    return { code, out: await out, error: await error };
  }

  connect(options: ConnectOptions = {}): Promise<Hub> {
    return this.hub.connect(options);
  }

  signalBridge(signal: NodeJS.Signals): void {
    this.#bridge?.kill(signal);
  }

  /** @returns the exit code, or the name of the signal */
  async bridgeEnded(): Promise<number | NodeJS.Signals | null> {
    const child = this.#bridge;
    if (child === undefined) return null;
    if (child.exitCode === null && child.signalCode === null)
      await soon("the bridge ends", once(child, "exit"));
    return child.signalCode ?? child.exitCode;
  }

  async killBridge(): Promise<void> {
    this.signalBridge("SIGKILL");
    await this.bridgeEnded();
  }

  /** Lets the bridge stop or die at a later step. */
  order(order: BridgeOrder): void {
    const { path } = this.hub.folder;
    rmSync(reachedFile(path), { force: true });
    this.#orders += 1;
    const numbered: NumberedOrder = { ...order, number: this.#orders };
    // WHY renamed: the bridge must not read a half of it.
    writeFileSync(`${orderFile(path)}.new`, JSON.stringify(numbered));
    renameSync(`${orderFile(path)}.new`, orderFile(path));
  }

  /** Lets this and each next bridge send only the first pieces of arrays, until `goOn`. */
  hold(): void {
    this.#orders += 1;
    const path = holdFile(this.hub.folder.path);
    writeFileSync(`${path}.new`, String(this.#orders));
    renameSync(`${path}.new`, path);
  }

  /** Lets the bridge send the rest. */
  goOn(): void {
    rmSync(holdFile(this.hub.folder.path), { force: true });
  }

  /** The step at which the bridge has carried out its order, if it has. */
  get reached(): string | undefined {
    const path = reachedFile(this.hub.folder.path);
    return existsSync(path) ? readFileSync(path, "utf8") : undefined;
  }

  /** Resolves once the bridge has carried out its order to stop. */
  async untilStopped(): Promise<void> {
    await until("the bridge has reached its step", () => this.reached !== undefined);
    await untilStopped(this.bridgePid);
  }

  /**
   * Takes back an order. If the bridge was quicker, resolves once it has reached the step.
   * @returns that step
   */
  async recall(): Promise<string | undefined> {
    if (!removed(orderFile(this.hub.folder.path)))
      await until("the bridge has reached its step", () => this.reached !== undefined);
    return this.reached;
  }

  /** Descriptors that the bridge has open. */
  bridgeFds(): number {
    return readdirSync(`/proc/${this.bridgePid}/fd`).length;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.signalBridge("SIGCONT");
    await this.killBridge();
    await this.hub[Symbol.asyncDispose]();
  }
}

async function textOf(stream: Readable): Promise<string> {
  let text = "";
  for await (const part of stream.setEncoding("utf8")) text += part;
  return text;
}
