/** What tests of demos share: the lines of a running demo, and what it may leave behind. */
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { type CliRig, eventually, type Outcome, type Started } from "./cli-rig.js";

/** Processes that were started in the rig's environment, hubs included. */
export function processesOf(rig: CliRig): string[] {
  return readdirSync("/proc").filter((pid) => {
    try {
      return (
        /^\d+$/.test(pid) &&
        readFileSync(`/proc/${pid}/environ`, "latin1").includes(`TMPDIR=${rig.folder}`)
      );
    } catch {
      // It has ended, or is another user's.
      return false;
    }
  });
}

export async function assertNothingLeft(rig: CliRig): Promise<void> {
  await eventually("all processes end", () => (processesOf(rig).length === 0 ? true : undefined));
  // A hub of the user leaves its lock and its log.
  const left = (await readdir(rig.folder)).filter((name) => !name.startsWith("hub.sock."));
  assert.deepEqual(left, []);
}

/** A demo that runs, and its lines so far. */
export class Demo {
  readonly child: Started["child"];
  readonly outcome: Started["outcome"];
  #text = "";
  #ended: Outcome | undefined;

  private constructor({ child, outcome }: Started) {
    this.child = child;
    this.outcome = outcome;
    child.stdout?.on("data", (text: string) => {
      this.#text += text;
    });
    outcome.then(
      (ended) => {
        this.#ended = ended;
      },
      // Reported to who awaits the outcome.
      () => {},
    );
  }

  static start(rig: CliRig, ...args: string[]): Demo {
    return new Demo(rig.start("demo", ...args));
  }

  /** Waits for a line that matches. Returns the process that said it. */
  sayer(said: RegExp): Promise<number> {
    return eventually(`a process says ${said}`, () => {
      for (const [, pid, text = ""] of this.#text.matchAll(/^ +(?:[a-z ]+ )?(\d+) {2}(.+)$/gm))
        if (said.test(text)) return Number(pid);
      assert.equal(this.#ended, undefined, `the demo ended without ${said}`);
      return undefined;
    });
  }
}
