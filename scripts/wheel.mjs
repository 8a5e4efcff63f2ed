// Makes the wheel of the Python package in build/wheel, with the hub and the commands inside:
// dist/, and the packages that it needs, for x86-64 and AArch64. `pip install "cuda-ipc[hub]"` adds
// Node.js. Needs a registry for what this machine's npm has not installed: the other binary of koffi.
// `node scripts/wheel.mjs [--prebuilt]` takes dist/ as it is.
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const OUT = "build/wheel";
const STAGE = join(OUT, "python");
const BUNDLE = join(STAGE, "src/cuda_ipc/_bundle");
const PYTHON = process.env.PYTHON ?? "python3";
/** koffi's binaries. Each package has one for glibc and one for musl. */
const BINARIES = ["@koromix/koffi-linux-x64", "@koromix/koffi-linux-arm64"];

const manifest = JSON.parse(readFileSync("package.json", "utf8"));
const { packages } = JSON.parse(readFileSync("package-lock.json", "utf8"));

function run(command, args) {
  const { status, stdout, error } = spawnSync(command, args, {
    encoding: "utf8",
    stdio: ["ignore", "pipe", "inherit"],
  });
  if (error !== undefined) throw error;
  if (status !== 0) throw new Error(`${command} ${args.join(" ")} ended with ${status}`);
  return stdout;
}

/** The packages that these need, and they themselves. */
function withDependencies(names, found = new Set()) {
  for (const name of names) {
    if (found.has(name)) continue;
    found.add(name);
    withDependencies(Object.keys(packages[`node_modules/${name}`]?.dependencies ?? {}), found);
  }
  return found;
}

/** Fetches a package that is for other machines than this one, and compares it with the lock. */
function fetchPackage(name, target) {
  const entry = packages[`node_modules/${name}`];
  const cache = join(OUT, "cache");
  mkdirSync(cache, { recursive: true });
  const file = join(cache, `${name.replace(/^@/, "").replace("/", "-")}-${entry.version}.tgz`);
  if (!existsSync(file))
    run("npm", ["pack", `${name}@${entry.version}`, "--silent", "--pack-destination", cache]);
  const [algorithm, digest] = entry.integrity.split("-");
  const found = createHash(algorithm).update(readFileSync(file)).digest("base64");
  if (found !== digest) {
    rmSync(file);
    throw new Error(`${name}@${entry.version} is not what package-lock.json names`);
  }
  mkdirSync(target, { recursive: true });
  run("tar", ["xzf", file, "-C", target, "--strip-components=1"]);
}

/** The manual and the C++ of koffi, whose binary is in a package of its own. */
const UNNEEDED =
  /node_modules\/koffi\/((doc|vendor|lib)(\/|$)|cnoke\.cjs|CHANGELOG\.md|.*\.(cc|hh|inc|S|asm|def)$)/;

function stageBundle() {
  cpSync("dist", join(BUNDLE, "dist"), {
    recursive: true,
    filter: (path) => !/\.(d\.ts|map)$|dist\/examples\/(inference-server|opentelemetry)/.test(path),
  });
  const { name, version, license, type, engines, dependencies } = manifest;
  const fields = { name, version, license, type, engines, dependencies };
  writeFileSync(join(BUNDLE, "package.json"), `${JSON.stringify(fields, null, 2)}\n`);
  for (const file of ["examples", "deploy"])
    cpSync(file, join(BUNDLE, file), {
      recursive: true,
      filter: (path) => !/examples\/(inference-server|opentelemetry|python)/.test(path),
    });
  for (const dependency of withDependencies(Object.keys(dependencies))) {
    const path = `node_modules/${dependency}`;
    cpSync(path, join(BUNDLE, path), {
      recursive: true,
      filter: (file) => !UNNEEDED.test(file) && !/\.(d\.ts|map)$/.test(file),
    });
  }
  for (const binary of BINARIES) {
    const path = `node_modules/${binary}`;
    if (existsSync(path)) cpSync(path, join(BUNDLE, path), { recursive: true });
    else fetchPackage(binary, join(BUNDLE, path));
  }
}

if (!process.argv.includes("--prebuilt")) run(process.execPath, ["scripts/build.mjs"]);
rmSync(STAGE, { recursive: true, force: true });
for (const file of ["pyproject.toml", "README.md", "src"])
  cpSync(join("python", file), join(STAGE, file), {
    recursive: true,
    filter: (path) => !/__pycache__|\.egg-info/.test(path),
  });
cpSync("LICENSE", join(STAGE, "LICENSE"));
stageBundle();
run(PYTHON, ["-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", OUT, STAGE]);
console.log(join(OUT, `cuda_ipc-${manifest.version}-py3-none-any.whl`));
