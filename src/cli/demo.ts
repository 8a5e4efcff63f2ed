/** `cuda-ipc demo [NAME]`: real processes share memory, step by step; done only when every byte was verified. */
import type { Command } from "commander";
import { parsePositive } from "./arguments.js";
import type { CommandContext } from "./command-context.js";
import { crashDemo } from "./demo/crash.js";
import { shareDemo } from "./demo/share.js";
import { Stage } from "./demo/stage.js";
import { UsageError } from "./error-report.js";
import { durationWords } from "./words.js";

interface Demo {
  /** Follows "Demo: ". */
  readonly title: string;
  readonly play: (stage: Stage) => Promise<void>;
}

const demos: Readonly<Record<string, Demo>> = {
  share: { title: "two processes share an array through the hub", play: shareDemo },
  crash: { title: "a producer is killed, and its array is still there", play: crashDemo },
};

interface DemoOptions {
  readonly device?: string;
  readonly elements: number;
}

export function addDemo(program: Command, context: CommandContext): void {
  const names = Object.entries(demos).map(([name, { title }]) => `  ${name.padEnd(8)}${title}`);
  program
    .command("demo")
    .description("show real processes sharing memory; fails unless every byte was verified")
    .argument("[name]", "which demo, see below", "share")
    .option("-d, --device <device>", "auto, host or cuda:N (default: CUDA_IPC_DEVICE, else auto)")
    .option("-n, --elements <count>", "elements of the array, 4 bytes each", parseElements, 1024 * 1024)
    .addHelpText("after", `\nDemos:\n${names.join("\n")}\n\nExample:\n  $ cuda-ipc demo crash --device host`)
    .action((name: string, options: DemoOptions) => run(name, options, context));
}

/** WHY a limit: what is far beyond any memory is refused in words about the option. */
function parseElements(text: string): number {
  return parsePositive(text, 2 ** 40);
}

async function run(name: string, options: DemoOptions, context: CommandContext): Promise<void> {
  const demo = Object.hasOwn(demos, name) ? demos[name] : undefined;
  if (demo === undefined) {
    throw new UsageError(`there is no demo "${name}"; there are: ${Object.keys(demos).join(", ")}`);
  }
  const { terminal } = context;
  const startMs = performance.now();
  await Stage.run(options, context, async (stage) => {
    terminal.line(`${terminal.style("bold", `Demo: ${demo.title}`)}`);
    terminal.line(`On ${stage.deviceWords}.`);
    terminal.line();
    await demo.play(stage);
  });
  const took = durationWords(performance.now() - startMs);
  terminal.line();
  terminal.line(`${terminal.style("green", "Done:")} every byte was verified, in ${took}.`);
}
