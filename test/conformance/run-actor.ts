/** Runs a process that a promise needs, to its end. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";

/**
 * Fails if the process does, with what it printed.
 * @param name the file of the actor
 * @param fds descriptors to pass to it. They get the numbers 3, 4 and so on.
 */
export async function runActor(
  name: string,
  args: readonly string[],
  fds: readonly number[],
): Promise<void> {
  const path = fileURLToPath(new URL(`./actors/${name}.js`, import.meta.url));
  const actor = spawn(process.execPath, [path, ...args], {
    stdio: ["ignore", "ignore", "pipe", ...fds],
    timeout: 60_000,
  });
  let complaint = "";
  actor.stderr?.setEncoding("utf8").on("data", (text: string) => {
    complaint += text;
  });
  const status = await new Promise((resolve) =>
    actor.on("close", (code, signal) => resolve(signal ?? code)),
  );
  assert.equal(status, 0, complaint);
}
