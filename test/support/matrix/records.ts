/** The content of docs/fault-matrix.json, and the tables of docs/reliability.md made from it. */
import {
  type Cell,
  cellName,
  cells,
  type Fault,
  faultsOfRole,
  type Role,
  roles,
  type Step,
  steps,
} from "./cells.js";
import type { Protection } from "./protections.js";

export interface CellRecord extends Cell {
  readonly outcome: "passed" | "failed";
  /** The promise, as the table shows it. */
  readonly sentence: string;
  /** The test that showed it. */
  readonly file: string;
  /** At how many system calls the fault was tried. */
  readonly systemCalls: number;
  /** The outcomes of the calls of the surviving parties. */
  readonly codes: readonly string[];
}

export interface MatrixReport {
  readonly date: string;
  readonly commit: string;
  readonly node: string;
  readonly kernel: string;
  readonly seconds: number;
  readonly cells: readonly CellRecord[];
  readonly protections: readonly Protection[];
}

const BEGIN = "<!-- fault matrix: written by npm run matrix -->";
const END = "<!-- end of the fault matrix -->";

/**
 * The page with the tables of this report.
 * @throws RangeError if the page lacks the markers
 */
export function withMatrix(page: string, report: MatrixReport): string {
  const begin = page.indexOf(BEGIN);
  const end = page.indexOf(END);
  if (begin < 0 || end < begin)
    throw new RangeError(`The page must have the markers "${BEGIN}" and "${END}"`);
  return `${page.slice(0, begin + BEGIN.length)}\n\n${markdown(report)}\n\n${page.slice(end)}`;
}

/**
 * Finds missing, duplicate and failed cells of a report, and sentences that differ from the tests.
 */
export function faultsOf(report: MatrixReport, sentenceOf: (cell: Cell) => string): string[] {
  const byName = new Map<string, CellRecord[]>();
  for (const record of report.cells)
    byName.set(cellName(record), [...(byName.get(cellName(record)) ?? []), record]);
  const wrong = cells.flatMap((cell) => {
    const name = cellName(cell);
    const [record, ...others] = byName.get(name) ?? [];
    byName.delete(name);
    if (record === undefined) return [`${name}: missing`];
    if (others.length > 0) return [`${name}: there ${others.length + 1} times`];
    if (record.outcome !== "passed") return [`${name}: ${record.outcome}`];
    return record.sentence === sentenceOf(cell)
      ? []
      : [`${name}: another sentence than the tests declare`];
  });
  return [...wrong, ...[...byName.keys()].map((name) => `${name}: no cell of the tests`)];
}

function markdown({
  date,
  commit,
  node,
  kernel,
  seconds,
  cells: records,
  protections,
}: MatrixReport): string {
  const passed = records.filter(({ outcome }) => outcome === "passed").length;
  const systemCalls = records.reduce((sum, record) => sum + record.systemCalls, 0);
  const run = `${passed} of ${cells.length} cells passed, at ${systemCalls} system calls, in ${seconds} s`;
  return [
    `${run} (${date}, ${commit}, Node ${node}, Linux ${kernel}).`,
    ...roles.flatMap((role) => [`### The ${role} is hit`, table(role, records)]),
    "### Seen to fail",
    "For each step and each fault, one protection was removed for a moment. What the code did then, and cells that failed:",
    protections
      .map(({ of, removed, seenFailing }) => `- ${of}: ${removed}. ${seenFailing.join("; ")}.`)
      .join("\n"),
  ].join("\n\n");
}

function table(role: Role, records: readonly CellRecord[]): string {
  const text = (fault: Fault, step: Step): string => {
    const found = records.find(
      (record) => record.role === role && record.fault === fault && record.step === step,
    );
    if (found === undefined) return "not run";
    return found.outcome === "passed" ? found.sentence : `**failed**: ${found.sentence}`;
  };
  const faults = faultsOfRole(role);
  return [
    `| while | ${faults.join(" | ")} |`,
    `| --- | ${faults.map(() => "---").join(" | ")} |`,
    ...steps.map((step) => `| ${step} | ${faults.map((fault) => text(fault, step)).join(" | ")} |`),
  ].join("\n");
}
