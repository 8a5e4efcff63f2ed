// Runs the demos with two sides as in two terminals, and those of ranks as a launcher starts them:
// each side is a command of its own.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pairNames } from "./demo-names.mjs";

const LIMIT_MS = 60_000;
const RANKS = ["exchange", "simple-ipc"];

/**
 * @param launcher the compiled command line
 * @returns each demo with its sides: the command, its exit status and what it printed
 */
export async function inTerminals(launcher, device, env) {
  const found = [];
  for (const name of pairNames(launcher)) {
    const folder = mkdtempSync(join(tmpdir(), "cuda-ipc-terminals-"));
    const meet = name === "ring" ? "frames" : join(folder, "meet");
    const own = { ...env, CUDA_IPC_SOCKET: join(folder, "hub.sock") };
    // The consumer first: the order is free.
    const sides = ["consumer", "producer"].map((side) =>
      run(launcher, [name, side, meet, "--device", device], own),
    );
    found.push({ name, sides: (await Promise.all(sides)).map((side) => without(folder, side)) });
    rmSync(folder, { recursive: true, force: true });
  }
  for (const name of RANKS) found.push({ name, sides: await ranks(launcher, name, device, env) });
  return found;
}

/** The folder is different at each run. */
const without = (folder, { command, exitCode, output }) => ({
  command: command.replaceAll(folder, "FOLDER"),
  exitCode,
  output: output.replaceAll(folder, "FOLDER"),
});

/** Two ranks with the variables that Slurm sets. */
function ranks(launcher, name, device, env) {
  const job = { SLURM_NTASKS: "2", SLURM_JOB_ID: String(process.pid), SLURM_STEP_ID: "0" };
  return Promise.all(
    ["0", "1"].map((rank) =>
      run(launcher, [name, "--device", device], { ...env, ...job, SLURM_PROCID: rank }),
    ),
  );
}

async function run(launcher, words, env) {
  const child = spawn(process.execPath, [launcher, "demo", ...words], {
    env,
    stdio: ["ignore", "pipe", "pipe"],
    timeout: LIMIT_MS,
    killSignal: "SIGKILL",
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding("utf8").on("data", (text) => {
      output += text;
    });
  const [exitCode] = await once(child, "close");
  return { command: `cuda-ipc demo ${words.join(" ")}`, exitCode, output };
}
