/**
 * Machines as network namespaces of this host. Each has one link to a bridge device of this host,
 * as to a switch, where the test listens. Needs root and `ip` (iproute2).
 */
import { spawnSync } from "node:child_process";
import { releaseAll } from "../../../src/base/scope.js";

let made = 0;

export class TestNetwork {
  /** Of this host, as the machines see it. */
  readonly address: string;
  readonly #switch: string;
  readonly #subnet: string;
  readonly #machines: string[] = [];

  constructor() {
    made += 1;
    this.#subnet = `10.${200 + (process.pid % 50)}.${made}`;
    this.address = `${this.#subnet}.1`;
    this.#switch = `ci${process.pid}x${made}`;
    try {
      ip("link", "add", this.#switch, "type", "bridge");
      ip("addr", "add", `${this.address}/24`, "dev", this.#switch);
      ip("link", "set", this.#switch, "up");
    } catch (error) {
      this[Symbol.dispose]();
      throw error;
    }
  }

  /** For the `skip` of a test: what is missing, or false. */
  static whyNot(): string | false {
    try {
      const network = new TestNetwork();
      try {
        const [program = "", ...args] = [...network.join(), "true"];
        run(program, args);
        return false;
      } finally {
        network[Symbol.dispose]();
      }
    } catch (error) {
      return `needs root and network namespaces: ${String(error)}`;
    }
  }

  /** Of the machine that was made last. */
  get lastAddress(): string {
    return `${this.#subnet}.${this.#machines.length + 1}`;
  }

  /** Makes a machine. Returns a command that runs other commands on it. */
  join(): readonly string[] {
    const number = this.#machines.length + 1;
    const namespace = `${this.#switch}m${number}`;
    this.#machines.push(namespace);
    ip("netns", "add", namespace);
    const inside = ["netns", "exec", namespace, "ip"];
    ip("link", "add", namespace, "type", "veth", "peer", "name", "eth0", "netns", namespace);
    ip("link", "set", namespace, "master", this.#switch, "up");
    ip(...inside, "addr", "add", `${this.#subnet}.${number + 1}/24`, "dev", "eth0");
    ip(...inside, "link", "set", "eth0", "up");
    ip(...inside, "link", "set", "lo", "up");
    return ["ip", "netns", "exec", namespace];
  }

  /** Cuts the cable of the last machine, or plugs it in again. */
  plug(isPlugged: boolean): void {
    ip("link", "set", this.#machines.at(-1) ?? "", isPlugged ? "up" : "down");
  }

  [Symbol.dispose](): void {
    releaseAll([
      ...this.#machines.flatMap((namespace) => [
        () => tryIp("netns", "del", namespace),
        // WHY: connections that were cut keep a namespace, and so its cable, for a while.
        () => tryIp("link", "del", namespace),
      ]),
      () => tryIp("link", "del", this.#switch),
    ]);
  }
}

function ip(...args: readonly string[]): void {
  run("ip", args);
}

/** For what may not be there. */
function tryIp(...args: readonly string[]): void {
  spawnSync("ip", args);
}

function run(program: string, args: readonly string[]): void {
  const { status, stderr, error } = spawnSync(program, args, { encoding: "utf8" });
  if (status !== 0)
    throw new Error(`${[program, ...args].join(" ")}: ${(error?.message ?? stderr).trim()}`);
}
