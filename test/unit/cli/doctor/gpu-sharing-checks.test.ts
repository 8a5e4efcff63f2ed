import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import { allWork } from "../../../../src/cli/doctor/check.js";
import { checkSurroundings } from "../../../../src/cli/doctor/check-surroundings.js";
import { gpuSharingChecks, visibilityChecks } from "../../../../src/cli/doctor/gpu-sharing-checks.js";
import { surroundingsOf, wordsOf } from "./made-surroundings.js";

const UUID = "GPU-0a1b2c3d-1111-2222-3333-444455556666";
const gpu = (attributes: Readonly<Record<string, number>>, name = "NVIDIA H200", uuid = UUID) => ({
  name,
  reference: { kind: "cuda", uuid } as const,
  attributes,
});

function told(
  t: TestContext,
  of: ReturnType<typeof gpu>,
  name: string,
  made: Parameters<typeof surroundingsOf>[1] = {},
): string {
  return wordsOf(gpuSharingChecks(of, surroundingsOf(t, made)), name);
}

describe("GPU sharing checks: MPS", () => {
  it("says that it is in use, and its danger", (t) => {
    const words = told(t, gpu({ MPS_ENABLED: 1 }), "MPS");
    assert.match(
      words,
      /^in use: .*no \/tmp\/nvidia-mps here\n.*45 us .*6\.4 us .*H200.*\n.*killed .*DEVICE_LOST.*supervisor/,
    );
  });

  it("says what it would bring where it is not in use or not known", (t) => {
    const words = told(t, gpu({ MPS_ENABLED: 0 }), "MPS");
    assert.match(
      words,
      /^not in use \(MPS_ENABLED\); no \/tmp\/nvidia-mps here\n.*45 us .*6\.4 us .*H200.*\n.*killed .*DEVICE_LOST/,
    );
    assert.match(told(t, gpu({}), "MPS"), /^not known to this driver/);
  });

  it("looks for the folder of the server where the environment or the default has it", (t) => {
    const off = gpu({ MPS_ENABLED: 0 });
    const env = { CUDA_MPS_PIPE_DIRECTORY: "/run/mps" };
    assert.match(told(t, off, "MPS", { env }), /CUDA_MPS_PIPE_DIRECTORY=\/run\/mps, which is not there\n/);
    const pipe = { "/run/mps/control": "" };
    assert.match(told(t, off, "MPS", { env, files: pipe }), /CUDA_MPS_PIPE_DIRECTORY=\/run\/mps, which is there\n/);
    const usual = { "/tmp/nvidia-mps/control": "" };
    assert.match(
      told(t, off, "MPS", { files: usual }),
      /there is a \/tmp\/nvidia-mps, perhaps of a server that ended\n/,
    );
  });
});

describe("GPU sharing checks: MIG", () => {
  it("knows an instance by its UUID, its name, or the list of visible devices", (t) => {
    const rules = /^this device is a MIG instance\n.*compute instances.*not between GPU instances/;
    assert.match(told(t, gpu({}, "NVIDIA H200", UUID.replace("GPU", "MIG")), "MIG"), rules);
    assert.match(told(t, gpu({}, "NVIDIA H200 MIG 1g.18gb"), "MIG"), rules);
    const env = { CUDA_VISIBLE_DEVICES: `MIG-77, ${UUID.replace("GPU", "MIG")}` };
    assert.match(told(t, gpu({}), "MIG", { env }), rules);
  });

  it("does not take a whole GPU for one", (t) => {
    assert.equal(told(t, gpu({}), "MIG", { env: { CUDA_VISIBLE_DEVICES: `${UUID},MIG-77` } }), "");
    assert.equal(told(t, gpu({}, "MIGHTY GPU"), "MIG"), "");
  });

  it("says which GPUs the environment leaves visible", (t) => {
    const words = (env: NodeJS.ProcessEnv) => wordsOf(visibilityChecks(surroundingsOf(t, { env })), "visible GPUs");
    assert.equal(words({}), "");
    assert.equal(words({ CUDA_VISIBLE_DEVICES: "1,0" }), "CUDA_VISIBLE_DEVICES=1,0");
    assert.match(words({ CUDA_VISIBLE_DEVICES: "MIG-77" }), /^CUDA_VISIBLE_DEVICES=MIG-77\nit names MIG instances/);
    assert.equal(words({ NVIDIA_VISIBLE_DEVICES: "all" }), "NVIDIA_VISIBLE_DEVICES=all");
  });
});

describe("GPU sharing checks: compute mode and memory", () => {
  it("speaks of the mode only where it keeps processes out, and says what to do", (t) => {
    for (const attributes of [{}, { COMPUTE_MODE: 0 }]) assert.equal(told(t, gpu(attributes), "compute mode"), "");
    assert.match(
      told(t, gpu({ COMPUTE_MODE: 2 }), "compute mode"),
      /^prohibited: [\s\S]*to do: .*nvidia-smi -c DEFAULT$/,
    );
    assert.match(told(t, gpu({ COMPUTE_MODE: 3 }), "compute mode"), /^exclusive process: [\s\S]*MPS[\s\S]*to do: /);
    assert.match(told(t, gpu({ COMPUTE_MODE: 7 }), "compute mode"), /^7, unknown to this program/);
  });

  it("knows a GPU that shares the memory of the CPU, and tells a Tegra from others", (t) => {
    assert.equal(told(t, gpu({ INTEGRATED: 0 }), "integrated"), "");
    assert.match(told(t, gpu({ INTEGRATED: 1 }), "integrated"), /no Tegra as far as can be told/);
    const files = { "/etc/nv_tegra_release": "" };
    assert.match(told(t, gpu({ INTEGRATED: 1 }), "integrated", { files }), /see Jetson above/);
  });

  it("are facts, as all surroundings: none makes the doctor fail", (t) => {
    const files = { "/.dockerenv": "", "/proc/version": "WSL2", "/proc/self/status": "Seccomp:\t2\n" };
    const around = surroundingsOf(t, { files, env: { CUDA_VISIBLE_DEVICES: "MIG-77" } });
    const of = gpu({ COMPUTE_MODE: 2, INTEGRATED: 1, MPS_ENABLED: 1 });
    const checks = [...checkSurroundings(around), ...gpuSharingChecks(of, around)];
    assert.ok(checks.length >= 10 && allWork(checks));
  });
});
