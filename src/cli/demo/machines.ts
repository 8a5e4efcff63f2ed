/**
 * The demo `machines`: three hubs on this computer, each with a bridge of its own, as on three
 * machines. An array and a channel go from one to the others. Then all processes of that one are
 * killed, and the others say so and go on with what they have.
 */
import { fork } from "node:child_process";
import { dirname, join } from "node:path";
import { ownProgram } from "../../base/own-package.js";
import { Device } from "../../gpu/device.js";
import type { CommandContext } from "../command-context.js";
import { withTemporarySocket } from "../temporary-folder.js";
import { chosenDeviceWords, durationWords } from "../terminal/words.js";
import { DemoMachine, type MachinesStage } from "./machines/demo-machine.js";
import { findNatsServer, missingEngines } from "./machines/engines.js";
import { killProcessesIn } from "./machines/folder-processes.js";
import { StartedProgram } from "./machines/started-program.js";
import { sayStep } from "./say-step.js";
import type { StageOptions } from "./stage.js";
import { withinLimit } from "./time-limit.js";

const TIME_LIMIT_MS = 120_000;

/** Resolves to the reason if this computer lacks what the demo needs. */
export function machinesDemo(
  title: string,
  options: StageOptions,
  { terminal, signal: interrupt }: CommandContext,
): Promise<string | undefined> {
  const say = (who: string, pid: number, text: string) => sayStep(terminal, who, pid, text);
  return withinLimit(TIME_LIMIT_MS, interrupt, async (signal) => {
    using device = Device.open(options.device);
    const missing = await missingEngines(process.env);
    terminal.line(title);
    if (missing !== undefined) return missing;
    terminal.line(`On ${chosenDeviceWords(device)}. Each machine is a hub and a bridge.`);
    terminal.line();
    await withTemporarySocket("cuda-ipc-demo-", async (socket) => {
      const folder = dirname(socket);
      startSweeper(socket);
      try {
        const natsUrl = await startNats(folder, signal, say);
        const { elements } = options;
        await play(folder, { device: device.name, elements, natsUrl, signal, say });
      } finally {
        await killProcessesIn(folder);
      }
    });
    return undefined;
  });
}

/** Ends everything if this process is killed. Otherwise ends with the rest. */
function startSweeper(socket: string): void {
  const program = "cli/demo/actors/sweeper.js";
  const sweeper = fork(ownProgram(program) ?? program, [socket], {
    execArgv: [],
    detached: true,
    stdio: ["ignore", "ignore", "ignore", "ipc"],
  });
  sweeper.unref();
  sweeper.channel?.unref();
}

async function startNats(
  folder: string,
  signal: AbortSignal,
  say: MachinesStage["say"],
): Promise<string> {
  const program = findNatsServer(process.env) ?? "nats-server";
  const where = ["-a", "127.0.0.1", "-p", "-1", "-sd", join(folder, "nats")];
  const server = StartedProgram.start("nats-server", [program, "-js", ...where], process.env);
  const [, version] = await server.printed(/Version: +(\S+)/, signal);
  const [, port] = await server.printed(/client connections on \S+:(\d+)/, signal);
  const url = `nats://127.0.0.1:${port}`;
  say("nats", server.pid, `version ${version} listens at ${url}`);
  return url;
}

async function play(folder: string, stage: MachinesStage): Promise<void> {
  const start = (name: string) => DemoMachine.start(name, join(folder, name, "hub.sock"), stage);
  const [a, b, c] = await Promise.all([start("a"), start("b"), start("c")]);
  for (const machine of [a, b, c]) machine.sayStart();
  const sender = a.play("sender");
  const receivers = [b.play("receiver"), c.play("receiver")] as const;
  const all = (point: string) => Promise.all(receivers.map((it) => it.reached(point)));
  await Promise.race([all("joined"), sender.finished()]);
  sender.tell("write");
  await Promise.all([sender.reached("written"), all("read")]);

  const startMs = performance.now();
  const killed = await a.kill();
  const since = () => durationWords(performance.now() - startMs);
  stage.say("demo", process.pid, `killed machine "a": ${killed}`);
  stage.say("demo", process.pid, 'waits: for 15 s, machine "a" may come back');
  const isGone = Promise.all([b, c].map((it) => it.knowsGone("a").then(() => sayGone(it))));
  await Promise.all([isGone, all("channel ended")]);
  for (const receiver of receivers) receiver.tell("look again");
  await Promise.all(receivers.map((it) => it.finished()));

  await killProcessesIn(folder);
  stage.say("demo", process.pid, "ended the other machines");

  function sayGone({ name, bridge }: DemoMachine): void {
    stage.say(`${name} bridge`, bridge.pid, `knows after ${since()} that machine "a" is gone`);
  }
}
