// Compiles src and test into build/ and runs test files there: `npm test`, or for some files
// `npm test -- unit process/hub`. --quick and --all choose other sets of files (test-sets.mjs).
// --report=FILE writes counts, failures, skips and durations as JSON. --slowest prints the slowest
// files. Ends with the line `N passed, N failed, N skipped`. The GPU bundle runs the same script
// with --prebuilt.
import { existsSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { run } from "node:test";
import { spec } from "node:test/reporters";
import { chosenFiles, programsOf } from "./test-sets.mjs";

const argv = process.argv.slice(2);
const prebuilt = argv.includes("--prebuilt");
const set = ["quick", "all"].find((name) => argv.includes(`--${name}`)) ?? "usual";
const prefixes = argv.filter((argument) => !argument.startsWith("--"));
// Four for two cores, because tests with processes of their own often wait for them.
const concurrency = Number(process.env.TEST_CONCURRENCY ?? 4);

if (!prebuilt) await compileAll();

// Random tests do less unless this is "all"; see test/support/random.ts.
process.env.TEST_SET = set;
const root = "build/test";
const compiled = readdirSync(root, { recursive: true })
  .filter((file) => file.endsWith(".test.js"))
  .filter((file) => prebuilt || existsSync(join("test", file.replace(/\.js$/, ".ts"))))
  .sort();
// A folder of its own, because two runs may overlap.
const groups = `build/groups/${process.pid}`;
process.on("exit", () => rmSync(groups, { recursive: true, force: true }));
const files = programsOf(chosenFiles(compiled, set, prefixes), root, groups);
if (files.length === 0) {
  console.error(`No test file matches: ${prefixes.join(" ")}`);
  process.exit(1);
}

const reportPath = argv
  .find((argument) => argument.startsWith("--report="))
  ?.slice("--report=".length);
const counts = { passed: 0, failed: 0, skipped: 0 };
const failures = [];
const skips = [];
/** The counts of each file. */
const byFile = {};
const entryOf = (file) => {
  const name = relative(root, file ?? "");
  byFile[name] ??= { passed: 0, failed: 0, skipped: 0, ms: 0 };
  return byFile[name];
};
const count = (kind, file) => {
  entryOf(file)[kind] += 1;
  counts[kind] += 1;
};
const took = (event) => {
  if (event.nesting === 0) entryOf(event.file).ms += Math.round(event.details?.duration_ms ?? 0);
};
/** For one file. At night some try every point. */
const timeout = process.env.NIGHTLY === "1" ? 1_800_000 : 600_000;
const stream = run({ files, concurrency, timeout });
stream.on("test:fail", (event) => {
  took(event);
  // A suite whose tests failed is counted with them. A suite whose hook failed is counted here.
  if (event.details?.type === "suite" && event.details?.error?.failureType === "subtestsFailed")
    return;
  count("failed", event.file);
  const cause = event.details?.error?.cause ?? event.details?.error;
  failures.push({
    file: relative(root, event.file ?? ""),
    name: event.name,
    message: String(cause?.message ?? cause),
  });
});
stream.on("test:pass", (event) => {
  took(event);
  // Suites are not counted, but their tests are. A skipped suite has no tests.
  if (event.details?.type === "suite" && event.skip === undefined) return;
  if (event.skip === undefined && event.todo === undefined) {
    count("passed", event.file);
  } else {
    count("skipped", event.file);
    skips.push({ name: event.name, why: String(event.skip) });
  }
});
stream.on("end", () => {
  // The reporter prints its summary after the last event.
  setImmediate(() => {
    if (reportPath !== undefined)
      writeFileSync(reportPath, JSON.stringify({ ...counts, files: byFile, failures, skips }));
    if (argv.includes("--slowest")) printSlowest();
    console.log(`${counts.passed} passed, ${counts.failed} failed, ${counts.skipped} skipped`);
    process.exitCode = counts.failed > 0 || counts.passed === 0 ? 1 : 0;
  });
});
stream.compose(new spec()).pipe(process.stdout);

async function compileAll() {
  const [{ compile }, { bundleActors }] = await Promise.all([
    import("./compile.mjs"),
    import("./bundle-actors.mjs"),
  ]);
  await compile();
  // Not for the quick tests: few of them have actors, and bundling takes longer than it saves.
  if (set !== "quick" || prefixes.length > 0) await bundleActors();
}

function printSlowest() {
  const slowest = Object.entries(byFile).sort(([, a], [, b]) => b.ms - a.ms);
  for (const [file, { ms }] of slowest.slice(0, 40))
    console.log(`${(ms / 1000).toFixed(1).padStart(7)} s  ${file}`);
}
