// Which test files `npm test`, `npm run test:quick` and `npm run test:all` run, and which of them
// share a process.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";

/** These start no other processes, and take 60 s on two cores. */
const QUICK = ["unit", "conformance", "property"];

/**
 * Only in `npm run test:all`. Each is slow, because it repeats something at many points or with
 * many programs, or because it tests load or time.
 */
const SLOW = [
  "fault/death-at-call",
  "fault/keeper-death-at-call",
  "fault/system-calls",
  "process/bench",
  "process/cli/demo",
  "process/hub/attacks",
  "process/hub/hostile",
  "process/hub/tenants",
  "process/matrix",
  "process/python",
  "process/runtimes/bundles",
  "process/threads",
];

/** Matches a test file that needs its own process. A file that says `ALONE:` gives the reason. */
const OWN_PROCESS = /"node:(child_process|worker_threads)"|support\/(actor|test-hub)\.js|\bALONE:/;

const isIn = (file, prefixes) => prefixes.some((prefix) => file.startsWith(prefix));

/**
 * @param files paths from the root of the tests
 * @param set `quick`, `usual` or `all`
 * @param prefixes if not empty, they replace the set
 */
export function chosenFiles(files, set, prefixes) {
  if (prefixes.length > 0) return files.filter((file) => isIn(file, prefixes));
  if (set === "quick") return files.filter((file) => isIn(file, QUICK));
  return set === "all" ? files : files.filter((file) => !isIn(file, SLOW));
}

/**
 * Returns the programs to run. Most unit tests of a folder share one process, because starting a
 * process takes longer than most of them. Files with other processes take longest, so they come
 * first.
 */
export function programsOf(files, root, folder) {
  const groups = new Map();
  const alone = [];
  for (const file of files) {
    const isShared = file.startsWith("unit/") && !OWN_PROCESS.test(sourceOf(file, root));
    const name = file.split("/").slice(0, -1).slice(0, 2).join("-");
    if (isShared) groups.set(name, [...(groups.get(name) ?? []), file]);
    else alone.push(file);
  }
  mkdirSync(folder, { recursive: true });
  const shared = [...groups].map(([name, members]) => {
    const program = join(folder, `${name}.js`);
    writeFileSync(
      program,
      members.map((file) => `import "${join(relative(folder, root), file)}";\n`).join(""),
    );
    return program;
  });
  const isLong = (file) => isIn(file, ["fault", "process"]);
  const first = alone.filter(isLong);
  return [
    ...[...first, ...alone.filter((file) => !isLong(file))].map((file) => join(root, file)),
    ...shared,
  ];
}

/**
 * Reads the source if there is one, because compiled files have no comments. The GPU bundle has
 * none.
 */
function sourceOf(file, root) {
  const source = join("test", file.replace(/\.js$/, ".ts"));
  return readFileSync(existsSync(source) ? source : join(root, file), "utf8");
}
