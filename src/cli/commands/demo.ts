/**
 * `cuda-ipc demo [NAME] [ROLE] [PLACE]`: shows real processes sharing memory, and verifies every
 * byte. The demos `share`, `crash` and `machines` are in `src/cli/demo`. All others run a program
 * of `examples/`: all of it, or one role of it in this terminal.
 */
import type { Command } from "commander";
import { hasCode } from "../../base/errors.js";
import { rankFromEnvironment } from "../../peer/rank-from-environment.js";
import { deviceOption, parsePositive } from "../arguments.js";
import type { CommandContext } from "../command-context.js";
import { crashDemo } from "../demo/crash.js";
import { type ExampleRole, runExample, runRole } from "../demo/example.js";
import { machinesDemo } from "../demo/machines.js";
import { shareDemo } from "../demo/share.js";
import { Stage } from "../demo/stage.js";
import { UsageError } from "../terminal/error-report.js";
import { durationWords } from "../terminal/words.js";

/**
 * The kind of roles that a demo has. Two sides meet at a path or at a name on the hub. Ranks are
 * started by a launcher, and meet by the name of their job or by a given name. A daemon has its own
 * names on the hub.
 */
type Roles = "sides at a path" | "sides at a name" | "ranks" | "daemon";

const roleNames: Readonly<Record<Roles, readonly string[]>> = {
  "sides at a path": ["producer", "consumer"],
  "sides at a name": ["producer", "consumer"],
  ranks: ["rank"],
  daemon: ["serve", "watch"],
};

interface Demo {
  /** Follows "Demo: ". */
  readonly title: string;
  /** On a hub of its own. Absent if the demo is an example of the same name. */
  readonly play?: (stage: Stage) => Promise<void>;
  /** In place of `play`, for a demo on several hubs. */
  readonly run?: typeof machinesDemo;
  readonly roles?: Roles;
}

const demos: Readonly<Record<string, Demo>> = {
  share: { title: "two processes share an array through the hub", play: shareDemo },
  crash: {
    title: "a producer and a hub are killed, and the array is still there",
    play: crashDemo,
  },
  machines: {
    title: "an array and a channel go to other machines, and one machine dies",
    run: machinesDemo,
  },
  pool: {
    title: "a buffer of a memory pool goes to another process and back",
    roles: "sides at a path",
  },
  "array-handle": {
    title: "a process sends an array's handle as bytes, another opens it",
    roles: "sides at a path",
  },
  vmm: {
    title: "a process sends memory through a Unix socket as a file descriptor",
    roles: "sides at a path",
  },
  legacy: {
    title: "a process passes a 64-byte handle through a file",
    roles: "sides at a path",
  },
  fork: { title: "a child doubles its parent's array in place" },
  events: {
    title: "a process waits for another's GPU by an event",
    roles: "sides at a path",
  },
  kernels: {
    title: "two processes run kernels of their own on one array",
    roles: "sides at a path",
  },
  fibonacci: { title: "processes take turns at one sequence, ordered by timelines" },
  ring: {
    title: "a ring of buffers streams data between two processes",
    roles: "sides at a name",
  },
  channel: { title: "one writer, three readers: one is slow, and one is killed" },
  pipeline: { title: "frames go through three processes, and one is killed and replaced" },
  "simple-ipc": { title: "every process works on its neighbour's buffer", roles: "ranks" },
  exchange: { title: "ranks swap their buffers without a copy through the host", roles: "ranks" },
  daemon: {
    title: "a process owns data and changes it, others watch and control it",
    roles: "daemon",
  },
  "supervised-workers": { title: "a supervisor restarts a killed worker, and no request is lost" },
  "consumer-first": {
    title: "a consumer that starts first waits, or learns why it cannot",
    roles: "sides at a path",
  },
};

const DEFAULT_ELEMENTS = 1024 * 1024;

interface DemoOptions {
  readonly device?: string;
  readonly elements?: number;
  readonly processes?: number;
}

export function addDemo(program: Command, context: CommandContext): void {
  program
    .command("demo")
    .description("show real processes sharing memory; fails unless every byte is verified")
    .argument("[name]", "which demo, see below", "share")
    .argument("[role]", "run only this role of the demo, and the others in other terminals")
    .argument("[meeting-point]", "where the roles meet: a path, or a name for ring and for ranks")
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
    .addHelpText("after", helpText())
    .action((name: string, role: string | undefined, meetingPoint: string | undefined, options) =>
      run(name, role === undefined ? undefined : { role, meetingPoint }, options, context),
    );
}

function helpText(): string {
  const titles = Object.entries(demos).map(([name, { title }]) => `  ${name.padEnd(20)}${title}`);
  return `
Demos:
${titles.join("\n")}

In two terminals, in any order:
  $ cuda-ipc demo vmm producer /tmp/meet
  $ cuda-ipc demo vmm consumer /tmp/meet
  also ${namesWith("sides at a path").join(", ")}
  $ cuda-ipc demo ring producer NAME
  $ cuda-ipc demo ring consumer NAME
  $ cuda-ipc demo daemon serve
  $ cuda-ipc demo daemon watch

As ranks of a launcher, for ${namesWith("ranks").join(" and ")}:
  $ mpirun -n 2 cuda-ipc demo exchange
  $ srun -n 2 cuda-ipc demo exchange rank NAME

Example:
  $ cuda-ipc demo crash --device host`;
}

export function demoNames(): string[] {
  return Object.keys(demos);
}

/** Empty for a demo without roles, and for an unknown one. */
export function demoRoles(name: string): readonly string[] {
  const roles = Object.hasOwn(demos, name) ? demos[name]?.roles : undefined;
  return roles === undefined ? [] : roleNames[roles];
}

export function demoMeetsAtPath(name: string): boolean {
  return namesWith("sides at a path").includes(name);
}

function namesWith(...roles: readonly Roles[]): string[] {
  return Object.entries(demos)
    .filter(([, demo]) => demo.roles !== undefined && roles.includes(demo.roles))
    .map(([name]) => name);
}

/** Numbers far above any memory get an error about the option. */
function parseElements(text: string): number {
  return parsePositive(text, 2 ** 40);
}

function parseProcesses(text: string): number {
  return parsePositive(text, 64);
}

async function run(
  name: string,
  asked: ExampleRole | undefined,
  options: DemoOptions,
  context: CommandContext,
): Promise<void> {
  const demo = Object.hasOwn(demos, name) ? demos[name] : undefined;
  if (demo === undefined) {
    throw new UsageError(`there is no demo "${name}"; the demos are ${demoNames().join(", ")}`);
  }
  if (asked !== undefined) checkRole(name, demo.roles, asked);
  const role = asked ?? (demo.roles === "ranks" ? roleOfLauncher() : undefined);
  const { terminal } = context;
  const startMs = performance.now();
  const title = terminal.style("bold", `Demo: ${demo.title}`);
  const { play } = demo;
  const withDefaults = { ...options, elements: options.elements ?? DEFAULT_ELEMENTS };
  let skipped: string | undefined;
  if (demo.run !== undefined) skipped = await demo.run(title, withDefaults, context);
  else if (play === undefined) {
    terminal.line(title);
    terminal.line();
    skipped = await (role === undefined
      ? runExample(name, options, context)
      : runRole(name, role, options, context));
  } else {
    skipped = await Stage.run(withDefaults, context, async (stage) => {
      terminal.line(title);
      terminal.line(`On ${stage.deviceWords}.`);
      terminal.line();
      await play(stage);
    });
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

/** @throws UsageError that names the roles there are */
function checkRole(
  name: string,
  roles: Roles | undefined,
  { role, meetingPoint }: ExampleRole,
): void {
  if (roles === undefined) {
    const others = namesWith("sides at a path", "sides at a name", "ranks", "daemon").join(", ");
    throw new UsageError(`demo ${name} has no roles; the demos with roles are ${others}`);
  }
  const known = roleNames[roles];
  if (!known.includes(role)) {
    const found = known.length === 1 ? `its role is ${known}` : `its roles are ${known.join(", ")}`;
    throw new UsageError(`demo ${name} has no role "${role}"; ${found}`);
  }
  if (
    roles === "ranks" ||
    roles === "daemon" ||
    (meetingPoint !== undefined && meetingPoint !== "")
  )
    return;
  const what = roles === "sides at a path" ? "PATH" : "NAME";
  const usage = `cuda-ipc demo ${name} ${role} ${what}`;
  throw new UsageError(`${role} needs a ${what} where both sides meet: ${usage}`);
}

/** Started by mpirun or srun, this process is one rank of the demo. */
function roleOfLauncher(): ExampleRole | undefined {
  try {
    rankFromEnvironment();
    return { role: "rank", meetingPoint: undefined };
  } catch (error) {
    if (hasCode(error, "NO_RANK")) return undefined;
    throw error;
  }
}
