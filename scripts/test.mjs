// Compiles src and test into build/ and runs test files there: `npm test`, or `npm test -- unit process/hub` for some.
// --report=FILE writes the counts, failures and skips as JSON.
// Ends with the line `N passed, N failed, N skipped`. The GPU bundle runs the same script with --prebuilt.
import { existsSync, readdirSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { run } from "node:test";
import { spec } from "node:test/reporters";

const argv = process.argv.slice(2);
const prebuilt = argv.includes("--prebuilt");
const wanted = argv.filter((argument) => !argument.startsWith("--"));
const concurrency = Number(process.env.TEST_CONCURRENCY ?? 2);

if (!prebuilt) await (await import("./compile.mjs")).compile();

const root = "build/test";
const files = readdirSync(root, { recursive: true })
  .filter((file) => file.endsWith(".test.js"))
  .filter((file) => existsSync(join(prebuilt ? root : "test", prebuilt ? file : file.replace(/\.js$/, ".ts"))))
  .filter((file) => wanted.length === 0 || wanted.some((prefix) => file.startsWith(prefix)))
  .sort()
  .map((file) => join(root, file));
if (files.length === 0) {
  console.error(`No test file matches: ${wanted.join(" ")}`);
  process.exit(1);
}

const reportPath = argv.find((argument) => argument.startsWith("--report="))?.slice("--report=".length);
const counts = { passed: 0, failed: 0, skipped: 0 };
const failures = [];
const skips = [];
/** Of each file by itself. */
const byFile = {};
const count = (kind, file) => {
  const name = relative(root, file ?? "");
  byFile[name] ??= { passed: 0, failed: 0, skipped: 0 };
  byFile[name][kind] += 1;
  counts[kind] += 1;
};
const stream = run({ files, concurrency, timeout: 300_000 });
stream.on("test:fail", (event) => {
  // WHY not every suite: one that failed for its tests alone is counted with them. One whose hook failed is counted here.
  if (event.details?.type === "suite" && event.details?.error?.failureType === "subtestsFailed") return;
  count("failed", event.file);
  const cause = event.details?.error?.cause ?? event.details?.error;
  failures.push({ file: relative(root, event.file ?? ""), name: event.name, message: String(cause?.message ?? cause) });
});
stream.on("test:pass", (event) => {
  // WHY not every suite: its tests are counted by themselves. One that is skipped has none.
  if (event.details?.type === "suite" && event.skip === undefined) return;
  if (event.skip === undefined && event.todo === undefined) {
    count("passed", event.file);
  } else {
    count("skipped", event.file);
    skips.push({ name: event.name, why: String(event.skip) });
  }
});
stream.on("end", () => {
  // WHY: the reporter still prints its summary after the events end.
  setImmediate(() => {
    if (reportPath !== undefined)
      writeFileSync(reportPath, JSON.stringify({ ...counts, files: byFile, failures, skips }));
    console.log(`${counts.passed} passed, ${counts.failed} failed, ${counts.skipped} skipped`);
    process.exitCode = counts.failed > 0 || counts.passed === 0 ? 1 : 0;
  });
});
stream.compose(new spec()).pipe(process.stdout);
