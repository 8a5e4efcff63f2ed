/**
 * Machines to measure between: network namespaces with a veth link each if this user may make
 * them, otherwise hubs and bridges of this host, which talk over the loopback device.
 */
import type { Hub } from "../../src/client/hub.js";
import { TestMachine } from "../../test/support/machines/test-machine.js";
import { TestNats } from "../../test/support/machines/test-nats.js";
import { TestNetwork } from "../../test/support/machines/test-network.js";

export interface Place {
  readonly address: string;
  /** A command that runs other commands there. */
  readonly within: readonly string[];
}

export class Site implements AsyncDisposable {
  /** `veth` or `loopback`. */
  readonly link: string;
  readonly #network: TestNetwork | undefined;
  readonly #nats: TestNats;
  readonly #machines: TestMachine[] = [];
  readonly #hubs: Hub[] = [];

  private constructor(network: TestNetwork | undefined, nats: TestNats) {
    this.link = network === undefined ? "loopback" : "veth";
    this.#network = network;
    this.#nats = nats;
  }

  static async start(): Promise<Site> {
    const network = TestNetwork.whyNot() === false ? new TestNetwork() : undefined;
    return new Site(network, await TestNats.start(["-js"], network?.address));
  }

  /** A network of its own for a machine. */
  place(): Place {
    if (this.#network === undefined) return { address: "127.0.0.1", within: [] };
    const within = this.#network.join();
    return { address: this.#network.lastAddress, within };
  }

  async machine(name: string, { within }: Place, args: readonly string[]): Promise<TestMachine> {
    const machine = await TestMachine.start(name, this.#nats, { within, args });
    this.#machines.push(machine);
    return machine;
  }

  async connect(machine: TestMachine, device = "host"): Promise<Hub> {
    const hub = await machine.connect({ device });
    this.#hubs.push(hub);
    return hub;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const hub of this.#hubs.reverse()) await hub.close();
    for (const machine of this.#machines.reverse()) await machine[Symbol.asyncDispose]();
    await this.#nats[Symbol.asyncDispose]();
    this.#network?.[Symbol.dispose]();
  }
}
