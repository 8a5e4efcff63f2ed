/**
 * `cuda-ipc demo [NAME]`: shows real processes sharing memory, and verifies every byte. The demos
 * `share` and `crash` are in `src/cli/demo`. All others run a program of `examples/`.
 */
import type { Command } from "commander";
import { deviceOption, parsePositive } from "../arguments.js";
import type { CommandContext } from "../command-context.js";
import { crashDemo } from "../demo/crash.js";
import { runExample } from "../demo/example.js";
import { shareDemo } from "../demo/share.js";
import { Stage } from "../demo/stage.js";
import { UsageError } from "../terminal/error-report.js";
import { durationWords } from "../terminal/words.js";

interface Demo {
  /** Follows "Demo: ". */
  readonly title: string;
  /** Absent if the demo is an example of the same name. */
  readonly play?: (stage: Stage) => Promise<void>;
}

const demos: Readonly<Record<string, Demo>> = {
  share: { title: "two processes share an array through the hub", play: shareDemo },
  crash: {
    title: "a producer and a hub are killed, and the array is still there",
    play: crashDemo,
  },
  pool: { title: "a parent sends a buffer of a memory pool to its child and back" },
  "array-handle": { title: "a process sends an array's handle as bytes, another opens it" },
  vmm: { title: "a process sends memory through a Unix socket as a file descriptor" },
  legacy: { title: "a process passes a 64-byte handle through a file" },
  fork: { title: "a child doubles its parent's array in place" },
  events: { title: "a child waits for its parent's GPU by an event" },
  fibonacci: { title: "processes take turns at one sequence, ordered by timelines" },
  ring: { title: "a ring of buffers streams data between two processes" },
  channel: { title: "one writer, three readers: one is slow, and one is killed" },
  "simple-ipc": { title: "every process works on its neighbour's buffer" },
  exchange: { title: "ranks swap their buffers without a copy through the host" },
  daemon: { title: "a process owns data and changes it, others watch and control it" },
  "supervised-workers": { title: "a supervisor restarts a killed worker, and no request is lost" },
  "consumer-first": { title: "a consumer that starts first waits, or learns why it cannot" },
};

const DEFAULT_ELEMENTS = 1024 * 1024;

interface DemoOptions {
  readonly device?: string;
  readonly elements?: number;
  readonly processes?: number;
}

export function addDemo(program: Command, context: CommandContext): void {
  const names = Object.entries(demos).map(([name, { title }]) => `  ${name.padEnd(20)}${title}`);
  program
    .command("demo")
    .description("show real processes sharing memory; fails unless every byte is verified")
    .argument("[name]", "which demo, see below", "share")
    .addOption(deviceOption())
    .option(
      "-n, --elements <count>",
      "how many elements the array has, 4 bytes each (default: depends on the demo)",
      parseElements,
    )
    .option(
      "-p, --processes <count>",
      "how many processes take part, if the demo lets you choose",
      parseProcesses,
    )
    .addHelpText(
      "after",
      `\nDemos:\n${names.join("\n")}\n\nExample:\n  $ cuda-ipc demo crash --device host`,
    )
    .action((name: string, options: DemoOptions) => run(name, options, context));
}

/** Numbers far above any memory get an error about the option. */
function parseElements(text: string): number {
  return parsePositive(text, 2 ** 40);
}

function parseProcesses(text: string): number {
  return parsePositive(text, 64);
}

async function run(name: string, options: DemoOptions, context: CommandContext): Promise<void> {
  const demo = Object.hasOwn(demos, name) ? demos[name] : undefined;
  if (demo === undefined) {
    throw new UsageError(
      `there is no demo "${name}"; the demos are ${Object.keys(demos).join(", ")}`,
    );
  }
  const { terminal } = context;
  const startMs = performance.now();
  const title = terminal.style("bold", `Demo: ${demo.title}`);
  const { play } = demo;
  let skipped: string | undefined;
  if (play === undefined) {
    terminal.line(title);
    terminal.line();
    skipped = await runExample(name, options, context);
  } else {
    skipped = await Stage.run(
      { ...options, elements: options.elements ?? DEFAULT_ELEMENTS },
      context,
      async (stage) => {
        terminal.line(title);
        terminal.line(`On ${stage.deviceWords}.`);
        terminal.line();
        await play(stage);
      },
    );
  }
  if (skipped !== undefined) {
    terminal.line();
    terminal.line(`${terminal.style("yellow", `Skipped "${name}":`)} ${skipped}`);
    return;
  }
  const took = durationWords(performance.now() - startMs);
  terminal.line();
  terminal.line(`${terminal.style("green", "Done:")} every byte was verified, in ${took}.`);
}
