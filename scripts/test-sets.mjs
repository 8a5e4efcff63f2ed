// Which test files `npm test`, `npm run test:quick` and `npm run test:all` run, and which of them share a process.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";

/** Without other processes: 60 s on two cores. */
const QUICK = ["unit", "conformance", "property"];

/**
 * Left to `npm run test:all`: each takes long because it does the same at many points or with many programs, or because
 * its subject is load or time.
 */
const SLOW = [
  "fault/death-at-call",
  "fault/keeper-death-at-call",
  "fault/system-calls",
  "process/bench",
  "process/cli/demos",
  "process/hub/attacks",
  "process/hub/hostile",
  "process/hub/tenants",
  "process/matrix",
  "process/runtimes/bundles",
  "process/threads",
];

/** What makes a test file run in a process of its own. A file that says `ALONE:` gives its reason. */
const OWN_PROCESS = /"node:(child_process|worker_threads)"|support\/(actor|test-hub)\.js|\bALONE:/;

const isIn = (file, prefixes) => prefixes.some((prefix) => file.startsWith(prefix));

/**
 * @param files from the root of the tests
 * @param set `quick`, `usual` or `all`
 * @param prefixes if there are any, they decide instead of the set
 */
export function chosenFiles(files, set, prefixes) {
  if (prefixes.length > 0) return files.filter((file) => isIn(file, prefixes));
  if (set === "quick") return files.filter((file) => isIn(file, QUICK));
  return set === "all" ? files : files.filter((file) => !isIn(file, SLOW));
}

/**
 * The programs to run: most unit tests of a folder in one process, because starting one takes longer than most of them.
 * Files with other processes come first, because they take longest.
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
    writeFileSync(program, members.map((file) => `import "${join(relative(folder, root), file)}";\n`).join(""));
    return program;
  });
  const isLong = (file) => isIn(file, ["fault", "process"]);
  const first = alone.filter(isLong);
  return [...[...first, ...alone.filter((file) => !isLong(file))].map((file) => join(root, file)), ...shared];
}

/** WHY the source: what is compiled has no comments. The GPU bundle has no sources. */
function sourceOf(file, root) {
  const source = join("test", file.replace(/\.js$/, ".ts"));
  return readFileSync(existsSync(source) ? source : join(root, file), "utf8");
}
