/**
 * A bad cable between two machines of a `TestNetwork`: it delays, loses, repeats and reorders
 * packets. WHY not `tc netem`: many kernels are built without it, and every one has TAP devices.
 */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import type { Readable } from "node:stream";
import { fileURLToPath } from "node:url";
import { soon } from "../until.js";

const PROGRAM = fileURLToPath(
  new URL("../../../../test/support/machines/bad-cable.py", import.meta.url),
);
const PYTHON = process.env.PYTHON ?? "python3";
/** The name of the device at both ends, for `--interface`. */
export const CABLE_DEVICE = "wire0";

export interface CableQuality {
  readonly mtu?: number;
  readonly delayMs?: number;
  /** Each packet takes up to this much longer, so packets overtake each other. */
  readonly jitterMs?: number;
  /** The share of packets that are lost, and that come twice. */
  readonly loss?: number;
  readonly duplicates?: number;
}

export class TestCable {
  readonly #child: ChildProcess;

  private constructor(child: ChildProcess) {
    this.#child = child;
  }

  /** @param ends commands that run other commands on each machine, from `TestNetwork.join` */
  static async lay(
    ends: readonly [readonly string[], readonly string[]],
    { mtu = 1500, ...quality }: CableQuality,
  ): Promise<TestCable> {
    const namespaces = ends.map((words) => words.at(-1));
    const settings = JSON.stringify({ namespaces, device: CABLE_DEVICE, ...quality });
    const child = spawn(PYTHON, [PROGRAM, settings], { stdio: ["ignore", "pipe", "inherit"] });
    const cable = new TestCable(child);
    try {
      await soon("the cable is laid", once(child.stdout as Readable, "data"));
      for (const [index, words] of ends.entries()) {
        const inside = (...args: readonly string[]) => run([...words, "ip", ...args]);
        inside("addr", "add", `192.168.77.${index + 1}/24`, "dev", CABLE_DEVICE);
        inside("link", "set", CABLE_DEVICE, "mtu", String(mtu), "up");
      }
      return cable;
    } catch (error) {
      await cable[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** Removes the cable with both of its ends. */
  async [Symbol.asyncDispose](): Promise<void> {
    const child = this.#child;
    if (child.exitCode !== null || child.signalCode !== null) return;
    child.kill("SIGKILL");
    await soon("the cable is gone", once(child, "exit"));
  }
}

function run([program = "", ...args]: readonly string[]): void {
  const { status, stderr, error } = spawnSync(program, args, { encoding: "utf8" });
  if (status !== 0) throw new Error(`${args.join(" ")}: ${(error?.message ?? stderr).trim()}`);
}
