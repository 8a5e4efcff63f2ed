/** A real nats-server with JetStream, on a port of its own. It ends with the test. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:net";
import { connect } from "@nats-io/transport-node";
import { TestFolder } from "../test-folder.js";
import { soon, until } from "../until.js";
import { natsServer } from "./engines.js";

export class TestNats {
  readonly port: number;
  readonly #folder = new TestFolder();
  readonly #more: readonly string[];
  readonly #address: string;
  #child: ChildProcess | undefined;

  private constructor(port: number, more: readonly string[], address: string) {
    this.port = port;
    this.#address = address;
    this.#more = more;
  }

  /** @param more further arguments, such as `--auth` */
  static async start(more: readonly string[] = ["-js"], address = "127.0.0.1"): Promise<TestNats> {
    const nats = new TestNats(await freePort(), more, address);
    await nats.resume();
    return nats;
  }

  get url(): string {
    return `nats://${this.#address}:${this.port}`;
  }

  /** Starts the server, again after `kill`. JetStream's memory is empty then. */
  async resume(): Promise<void> {
    const program = natsServer ?? "nats-server";
    const store = this.#folder.file("store");
    const args = ["-a", this.#address, "-p", String(this.port), "-sd", store, ...this.#more];
    const child = spawn(program, args, { stdio: "ignore" });
    this.#child = child;
    await once(child, "spawn");
    await until("nats-server answers", () => this.#answers());
  }

  async kill(): Promise<void> {
    const child = this.#child;
    this.#child = undefined;
    if (child === undefined) return;
    child.kill("SIGKILL");
    if (child.exitCode === null && child.signalCode === null)
      await soon("nats-server ends", once(child, "exit"));
  }

  /** SIGSTOP and SIGCONT make a server that is there and does not answer. */
  signal(signal: NodeJS.Signals): void {
    this.#child?.kill(signal);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill();
    this.#folder[Symbol.dispose]();
  }

  /** A refused login or certificate is an answer, too. */
  async #answers(): Promise<boolean> {
    try {
      await (await connect({ servers: this.url, reconnect: false })).close();
      return true;
    } catch (error) {
      return /authoriz|certificate|tls/i.test(String(error));
    }
  }
}

export async function freePort(): Promise<number> {
  const server = createServer();
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  server.close();
  if (address === null || typeof address === "string") throw new Error("no port");
  return address.port;
}
