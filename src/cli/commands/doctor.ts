/** `cuda-ipc doctor`: tries what works on this machine, and says what to do about the rest. */
import type { Command } from "commander";
import type { CommandContext } from "../command-context.js";
import { allWork, type Check, type CheckState } from "../doctor/check.js";
import { checkDevice, type DeviceReport } from "../doctor/device-checks.js";
import { checkDriver } from "../doctor/driver-check.js";
import { visibilityChecks } from "../doctor/gpu-sharing-checks.js";
import { isolationChecks } from "../doctor/isolation-checks.js";
import { limitChecks } from "../doctor/limit-checks.js";
import { machineChecks } from "../doctor/machine-checks.js";
import { platformChecks } from "../doctor/platform-checks.js";
import { type Surroundings, surroundingsOfProcess } from "../doctor/surroundings.js";
import { checkSystem } from "../doctor/system-checks.js";
import { natsOptionsOfEnvironment } from "../nats-settings.js";
import type { Style, Terminal } from "../terminal/terminal.js";

interface DoctorOptions {
  readonly device?: string;
  readonly json?: boolean;
}

interface Findings {
  /** Whether the system works, and the chosen device, or the host if none was chosen. */
  readonly ok: boolean;
  readonly system: readonly Check[];
  /**
   * Facts about where this process runs and what that means for sharing. They do not affect `ok`.
   */
  readonly surroundings: readonly Check[];
  readonly driver: Check;
  /** The engines of a bridge. They do not affect `ok`. */
  readonly machines: readonly Check[];
  readonly devices: readonly (DeviceReport & { readonly works: boolean })[];
}

export function addDoctor(program: Command, context: CommandContext): void {
  program
    .command("doctor")
    .description("test what works on this machine, and say how to fix what does not")
    .option(
      "-d, --device <device>",
      "try only this device, and exit with 1 unless it works: auto, host or cuda:N",
    )
    .option("--json", "print JSON")
    .addHelpText("after", "\nExample:\n  $ cuda-ipc doctor --device cuda:0")
    .action((options: DoctorOptions) => doctor(options, context));
}

async function doctor({ device, json }: DoctorOptions, context: CommandContext): Promise<void> {
  const findings = await examine(device, context);
  if (json) context.terminal.json(findings);
  else print(context.terminal, findings, device);
  if (!findings.ok) context.exitCode = 1;
}

async function examine(wanted: string | undefined, context: CommandContext): Promise<Findings> {
  const system = await checkSystem(context);
  const around = surroundingsOfProcess();
  const surroundings = checkSurroundings(around);
  const { check: driver, gpus } = checkDriver(around);
  const names = wanted === undefined ? ["host", ...gpus] : [wanted];
  const devices = [];
  for (const name of names) {
    context.signal.throwIfAborted();
    const report = await (name.startsWith("cuda") && driver.state !== "ok"
      ? withoutDriver(name)
      : checkDevice(name, around, context.signal));
    devices.push({ ...report, works: allWork(report.checks) });
  }
  const machines = await machineChecks(natsOptionsOfEnvironment(process.env), context.signal);
  return {
    ok: allWork(system) && (devices[0]?.works ?? false),
    system,
    surroundings,
    driver,
    machines,
    devices,
  };
}

/** Facts about the container, limits, platform and GPU variables. They can explain failures. */
export function checkSurroundings(surroundings: Surroundings): Check[] {
  return [
    ...platformChecks(surroundings),
    ...isolationChecks(surroundings),
    ...limitChecks(surroundings),
    ...visibilityChecks(surroundings),
  ];
}

/** A GPU is not tried without a driver: it would only repeat the driver's failure. */
function withoutDriver(name: string): DeviceReport {
  return {
    name,
    checks: [{ name: "device", state: "missing", detail: "needs the CUDA driver, see above" }],
  };
}

function print(
  terminal: Terminal,
  { system, surroundings, driver, machines, devices }: Findings,
  wanted: string | undefined,
): void {
  printChecks(terminal, "System", [...system, driver]);
  printChecks(terminal, "Surroundings", surroundings);
  printChecks(terminal, "Several machines", machines);
  for (const { name, model, checks } of devices) {
    printChecks(
      terminal,
      model === undefined ? `Device ${name}` : `Device ${name}: ${model}`,
      checks,
    );
  }
  terminal.line();
  for (const { name, works } of devices) {
    const words = works ? "works" : "does not work";
    terminal.line(`Device ${name} ${terminal.style(works ? "green" : "red", words)}.`);
  }
  if (wanted === undefined && devices.length === 1) {
    terminal.line(
      "This process can use no GPU. Arrays will be in host memory, which processes share, too.",
    );
  }
  if (!allWork(system)) terminal.line("Fix the failed System checks first.");
  else if (devices.every(({ works }) => works))
    terminal.line("See processes share an array with: cuda-ipc demo");
}

const NAME_WIDTH = 20;
const STATE_WIDTH = 15;

const styles: Readonly<Record<CheckState, Style>> = {
  ok: "green",
  missing: "yellow",
  "not supported": "yellow",
  failed: "red",
  fact: "dim",
};

function printChecks(terminal: Terminal, title: string, checks: readonly Check[]): void {
  terminal.line(terminal.style("bold", title));
  const indent = " ".repeat(2 + STATE_WIDTH + NAME_WIDTH);
  for (const { name, state, detail, notes = [], toDo } of checks) {
    const word = state === "fact" ? "" : state;
    const shownState = terminal.style(styles[state], word.padEnd(STATE_WIDTH));
    terminal.line(`  ${shownState}${name.padEnd(NAME_WIDTH)}${detail}`);
    for (const note of notes) terminal.line(terminal.style("dim", `${indent}- ${note}`));
    if (toDo !== undefined) terminal.line(`${indent}to do: ${toDo}`);
  }
}
