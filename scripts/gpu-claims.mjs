// Writes what the documents say about docs/gpu-report.json and docs/gpu-benchmarks.json, from these
// files (`npm run docs:gpu`). With --check it only compares, which `npm run check:static` does.
import { readFileSync, writeFileSync } from "node:fs";
import { demoNames } from "./demo-names.mjs";

const LINE_MAX = 100;
/** How often a number is a word. */
const counts = ["no", "one", "two", "three", "four"];

const suiteNames = {
  conformance: "The conformance suite, on both drivers",
  gpu: "The GPU suite",
  mps: "What uses the GPU of both suites, under MPS",
};

/**
 * The text of each marked region of a page.
 * @param demos the names of all demos; those that the report lacks are named
 */
export function claimsOf({ report, benchmarks, demos }) {
  const commands = report.commands ?? [];
  const suites = Object.entries(report.suites ?? {}).map(
    ([name, { passed, failed, skipped, commit }]) =>
      item(
        `${suiteNames[name] ?? `Suite \`${name}\``}` +
          `${commit === undefined ? "" : ` (commit \`${shortened(commit)}\`)`}: ` +
          `${passed} tests passed, ${failed} failed, ${skipped} skipped.`,
      ),
  );
  return {
    "gpu-report": [
      "[docs/gpu-report.json](docs/gpu-report.json) records the last run on a real GPU:",
      `${wrap(`${machine(report)}.`)}\n`,
      ...suites,
      item(`Commands: ${commandWords(commands)}.`),
      ...terminalWords(report.terminals).map(item),
      ...missingWords(commands, demos).map(item),
      ...pythonWords(report.python).map(item),
      "",
      "The benchmarks in [docs/gpu-benchmarks.json](docs/gpu-benchmarks.json) are of another run:",
      wrap(`${machine(benchmarks)}.`),
    ].join("\n"),
    "gpu-benchmarks": [
      "Those of the last run are in [gpu-benchmarks.json](gpu-benchmarks.json):",
      wrap(`${machine(benchmarks)}.`),
    ].join("\n"),
  };
}

/** The page with the text of its marked regions replaced. */
export function withClaims(page, claims) {
  return page.replaceAll(
    /(<!-- begin: (gpu-[\w-]+) -->\n)[\s\S]*?(<!-- end: \2 -->)/g,
    (_, begin, name, end) => {
      if (claims[name] === undefined) throw new Error(`There is nothing to say about "${name}"`);
      return `${begin}${claims[name]}\n${end}`;
    },
  );
}

function machine({ gpus, node, date, commit }) {
  const [{ name, driver }] = gpus;
  const isUniform = gpus.every((gpu) => gpu.name === name);
  const words = isUniform ? `${counts[gpus.length] ?? gpus.length} ${name}` : namesOf(gpus);
  return `${words}, driver ${driver}, Node.js ${node}, ${date}, commit \`${shortened(commit)}\``;
}

const namesOf = (gpus) => gpus.map(({ name }) => name).join(" and ");

/** A commit with changes that were not committed says so. */
function shortened(commit) {
  const [hash, ...rest] = commit.split("+");
  return [hash.slice(0, 7), ...rest].join("+");
}

function commandWords(commands) {
  const of = (isWanted) => commands.filter(isWanted).map(({ command }) => `\`${brief(command)}\``);
  const failed = of(({ exitCode }) => exitCode !== 0);
  const skipped = of(({ skipped }) => skipped !== undefined);
  const passed = of(({ exitCode, skipped }) => exitCode === 0 && skipped === undefined);
  return [
    `${passed.length} passed: ${listed(passed)}`,
    ...(failed.length > 0 ? [`${failed.length} failed: ${listed(failed)}`] : []),
    ...(skipped.length > 0 ? [`${skipped.length} skipped: ${listed(skipped)}`] : []),
  ].join("; ");
}

/** The demos whose sides ran as commands of their own. */
function terminalWords(pairs) {
  if (pairs === undefined) return [];
  const isPassed = ({ sides }) => sides.every(({ exitCode }) => exitCode === 0);
  const of = (isWanted) => pairs.filter(isWanted).map(({ name }) => `\`${name}\``);
  const failed = of((pair) => !isPassed(pair));
  return [
    `Demos whose sides are commands of their own, as in two terminals: ${listed(of(isPassed))}` +
      `${failed.length > 0 ? `; failed: ${listed(failed)}` : ""}.`,
  ];
}

/** The report has the whole command. */
const brief = (command) => command.replace(/^cuda-ipc /, "").replace(/ --device cuda:0$/, "");

const listed = (words) => (words.length === 0 ? "none" : words.join(", "));

/** Which demos that run does not have, because it is older than they are. */
function missingWords(commands, demos) {
  const ran = commands.map(({ command }) => command);
  const isRun = (name) =>
    ran.some((command) =>
      name === "share"
        ? /^cuda-ipc demo( share)?( -|$)/.test(command)
        : `${command} `.startsWith(`cuda-ipc demo ${name} `),
    );
  const missing = demos.filter((name) => !isRun(name)).map((name) => `\`demo ${name}\``);
  if (!ran.some((command) => command.includes("inference-server")))
    missing.push("the inference server");
  return missing.length === 0 ? [] : [`Not in that run: ${missing.join(", ")}.`];
}

/** The cells of the table of Python's frameworks, and the versions that were there. */
function pythonWords(table) {
  if (table?.frameworks === undefined) return [];
  const cells = Object.entries(table.cells).map(([word, count]) => `${count} \`${word}\``);
  const there = Object.entries(table.frameworks).map(([name, { versions, missing }]) =>
    missing === undefined ? `${name} ${Object.values(versions ?? {})[0]}` : `no ${name}`,
  );
  return [
    `Frameworks of Python, each with each dtype in each direction: ${cells.join(", ")}; ` +
      `with Python ${table.python}, ${there.join(", ")}.`,
  ];
}

function item(text) {
  return wrap(`- ${text}`, "  ");
}

/** @param indent of all lines but the first */
function wrap(text, indent = "") {
  const lines = [];
  let line = "";
  // A command stays on one line, because a line break in code is no space.
  for (const word of text.match(/`[^`]*`\S*|\S+/g) ?? []) {
    const longer = line === "" ? word : `${line} ${word}`;
    if (longer.length <= LINE_MAX) line = longer;
    else {
      lines.push(line);
      line = indent + word;
    }
  }
  return [...lines, line].join("\n");
}

function main() {
  const read = (path) => JSON.parse(readFileSync(path, "utf8"));
  const claims = claimsOf({
    report: read("docs/gpu-report.json"),
    benchmarks: read("docs/gpu-benchmarks.json"),
    demos: demoNames("dist/cli/launch.cjs"),
  });
  for (const path of ["README.md", "docs/performance.md"]) {
    const page = readFileSync(path, "utf8");
    const wanted = withClaims(page, claims);
    if (page === wanted) continue;
    if (!process.argv.includes("--check")) writeFileSync(path, wanted);
    else {
      console.error(`${path} does not say what the GPU reports do. Run: npm run docs:gpu`);
      process.exitCode = 1;
    }
  }
}

if (process.argv[1] === import.meta.filename) main();
