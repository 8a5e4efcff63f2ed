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
  "process/cli/completion",
  "process/cli/cuda-in-c",
  "process/cli/demo",
  "process/cli/doctor",
  "process/hub/attacks",
  "process/hub/hostile",
  "process/hub/tenants",
  "process/machines/channel-deaths",
  "process/machines/deaths",
  "process/machines/fetch-steps",
  "process/machines/full-tables",
  "process/machines/hostile",
  "process/machines/many-names",
  "process/machines/network",
  "process/machines/steps",
  "process/machines/surroundings",
  "process/machines/three",
  "process/machines/wire",
  "process/matrix",
  "process/python",
  "process/runtimes",
  "process/threads",
];

/**
 * Only in `npm run test:nightly`, to keep CI short. They run benchmarks on a small scale, on which
 * no user's program depends, and end the sides of demos at many points.
 */
const NIGHTLY = [
  "process/bench/bench",
  "process/bench/channel-bench",
  "process/bench/hub-bench",
  "process/bench/machines-bench",
  "process/bench/soak",
  "process/cli/demo-sides-end",
];

/** These start first, so that no run ends with one of them while the other cores have no work. */
const LONGEST = [
  "process/matrix/hub-killed",
  "process/python",
  "process/machines/deaths",
  "process/machines/channel-deaths",
  "process/cli/demos",
  "process/matrix/keeper",
  "process/cli/demo-",
  "property/hub-simulation",
  "fault/keeper-death-at-call",
  "fault/death-at-call",
];

/** Matches a test file that needs its own process. A file that says `ALONE:` gives the reason. */
const OWN_PROCESS = /"node:(child_process|worker_threads)"|support\/(actor|test-hub)\.js|\bALONE:/;

/** The folders whose tests start other processes. */
const WAITING = ["fault", "process"];

const isIn = (file, prefixes) => prefixes.some((prefix) => file.startsWith(prefix));

/**
 * @param files paths from the root of the tests
 * @param set `quick`, `usual` or `all`
 * @param prefixes if not empty, they replace the set
 */
export function chosenFiles(files, set, prefixes) {
  if (prefixes.length > 0) return files.filter((file) => isIn(file, prefixes));
  if (set === "quick") return files.filter((file) => isIn(file, QUICK));
  const left = set === "all" ? NIGHTLY : [...SLOW, ...NIGHTLY];
  return files.filter((file) => !isIn(file, left));
}

/**
 * Returns the programs to run. Most unit tests of a folder share one process, because starting a
 * process takes longer than most of them. Programs that compute are dealt evenly among those that
 * often wait for other processes, so that the cores always have work.
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
  const first = LONGEST.flatMap((prefix) => alone.filter((file) => file.startsWith(prefix)));
  const rest = alone.filter((file) => !first.includes(file));
  const waiting = rest.filter((file) => isIn(file, WAITING));
  const computing = rest.filter((file) => !isIn(file, WAITING));
  const paths = (files) => files.map((file) => join(root, file));
  return [...paths(first), ...dealt(paths(waiting), [...paths(computing), ...shared])];
}

/** Both lists in one, in their order, with the elements of each as evenly spread as possible. */
function dealt(one, other) {
  const placed = [one, other].flatMap((list) =>
    list.map((item, i) => ({ item, at: (i + 0.5) / list.length })),
  );
  return placed.sort((a, b) => a.at - b.at).map(({ item }) => item);
}

/**
 * Reads the source if there is one, because compiled files have no comments. The GPU bundle has
 * none.
 */
function sourceOf(file, root) {
  const source = join("test", file.replace(/\.js$/, ".ts"));
  return readFileSync(existsSync(source) ? source : join(root, file), "utf8");
}
