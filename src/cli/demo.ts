/**
 * `cuda-ipc demo [NAME]`: real processes share memory, step by step; done only when every byte was verified. Two demos play on a hub and
 * are here; the others are the programs in `examples/`, run as anybody would run them.
 */
import type { Command } from "commander";
import { parsePositive } from "./arguments.js";
import type { CommandContext } from "./command-context.js";
import { crashDemo } from "./demo/crash.js";
import { runExample } from "./demo/example.js";
import { shareDemo } from "./demo/share.js";
import { Stage } from "./demo/stage.js";
import { UsageError } from "./error-report.js";
import { durationWords } from "./words.js";

interface Demo {
  /** Follows "Demo: ". */
  readonly title: string;
  /** Absent where it is an example of the same name. */
  readonly play?: (stage: Stage) => Promise<void>;
}

const demos: Readonly<Record<string, Demo>> = {
  share: { title: "two processes share an array through the hub", play: shareDemo },
  crash: { title: "a producer and a hub are killed, and the array is still there", play: crashDemo },
  pool: { title: "a buffer of a memory pool goes to a child process and back" },
  "array-handle": { title: "an array's handle is sent as bytes and opened elsewhere" },
  vmm: { title: "memory goes through a Unix socket as a file descriptor" },
  legacy: { title: "a 64-byte handle goes through a file" },
  fork: { title: "a child doubles its parent's array in place" },
  events: { title: "a child waits for its parent's GPU by an event" },
  fibonacci: { title: "processes take turns at one sequence, in step by timelines" },
  ring: { title: "a ring of buffers streams data between two processes" },
  channel: { title: "one writes, three read every message; one of them is slow and one is killed" },
  "simple-ipc": { title: "every process works on its neighbour's buffer" },
  exchange: { title: "ranks swap their buffers without a copy through the host" },
  daemon: { title: "a process owns data and changes them, others look and turn its knob" },
  "supervised-workers": { title: "workers under a supervisor, one of them killed: every request is answered" },
  "consumer-first": { title: "a consumer that starts first waits, or is told why not" },
};

const DEFAULT_ELEMENTS = 1024 * 1024;

interface DemoOptions {
  readonly device?: string;
  readonly elements?: number;
  readonly processes?: number;
}

export function addDemo(program: Command, context: CommandContext): void {
  const names = Object.entries(demos).map(([name, { title }]) => `  ${name.padEnd(16)}${title}`);
  program
    .command("demo")
    .description("show real processes sharing memory; fails unless every byte was verified")
    .argument("[name]", "which demo, see below", "share")
    .option("-d, --device <device>", "auto, host or cuda:N (default: CUDA_IPC_DEVICE, else auto)")
    .option("-n, --elements <count>", "elements of an array, 4 bytes each (default: the demo's own)", parseElements)
    .option("-p, --processes <count>", "processes, where a demo takes any number (default: its own)", parseProcesses)
    .addHelpText("after", `\nDemos:\n${names.join("\n")}\n\nExample:\n  $ cuda-ipc demo crash --device host`)
    .action((name: string, options: DemoOptions) => run(name, options, context));
}

/** WHY a limit: what is far beyond any memory is refused in words about the option. */
function parseElements(text: string): number {
  return parsePositive(text, 2 ** 40);
}

function parseProcesses(text: string): number {
  return parsePositive(text, 64);
}

async function run(name: string, options: DemoOptions, context: CommandContext): Promise<void> {
  const demo = Object.hasOwn(demos, name) ? demos[name] : undefined;
  if (demo === undefined) {
    throw new UsageError(`there is no demo "${name}"; there are: ${Object.keys(demos).join(", ")}`);
  }
  const { terminal } = context;
  const startMs = performance.now();
  const title = terminal.style("bold", `Demo: ${demo.title}`);
  const { play } = demo;
  if (play === undefined) {
    terminal.line(title);
    terminal.line();
    const skipped = await runExample(name, options, context);
    if (skipped !== undefined) {
      terminal.line();
      terminal.line(`${terminal.style("yellow", "Skipped:")} ${skipped}`);
      return;
    }
  } else {
    await Stage.run({ ...options, elements: options.elements ?? DEFAULT_ELEMENTS }, context, async (stage) => {
      terminal.line(title);
      terminal.line(`On ${stage.deviceWords}.`);
      terminal.line();
      await play(stage);
    });
  }
  const took = durationWords(performance.now() - startMs);
  terminal.line();
  terminal.line(`${terminal.style("green", "Done:")} every byte was verified, in ${took}.`);
}
