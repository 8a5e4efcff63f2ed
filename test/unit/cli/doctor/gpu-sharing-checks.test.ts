import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import { checkSurroundings } from "../../../../src/cli/commands/doctor.js";
import { allWork } from "../../../../src/cli/doctor/check.js";
import {
  gpuSharingChecks,
  visibilityChecks,
} from "../../../../src/cli/doctor/gpu-sharing-checks.js";
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
  it("prints that MPS is in use, and its danger", (t) => {
    const words = told(t, gpu({ MPS_ENABLED: 1 }), "MPS");
    assert.match(
      words,
      /^in use: .*\/tmp\/nvidia-mps does not exist\n.*6\.4 us .*45 us .*H200.*\n.*killed .*DEVICE_LOST.*supervisor/,
    );
  });

  it("prints what MPS would bring if it is not in use or unknown", (t) => {
    const words = told(t, gpu({ MPS_ENABLED: 0 }), "MPS");
    assert.match(
      words,
      /^not in use \(MPS_ENABLED\); \/tmp\/nvidia-mps does not exist\n.*6\.4 us .*45 us .*H200.*\n.*killed .*DEVICE_LOST/,
    );
    assert.match(told(t, gpu({}), "MPS"), /^not known to this driver/);
  });

  it("looks for the server's folder in the variable, or at the default", (t) => {
    const off = gpu({ MPS_ENABLED: 0 });
    const env = { CUDA_MPS_PIPE_DIRECTORY: "/run/mps" };
    assert.match(
      told(t, off, "MPS", { env }),
      /CUDA_MPS_PIPE_DIRECTORY=\/run\/mps, which does not exist\n/,
    );
    const pipe = { "/run/mps/control": "" };
    assert.match(
      told(t, off, "MPS", { env, files: pipe }),
      /CUDA_MPS_PIPE_DIRECTORY=\/run\/mps, which exists\n/,
    );
    const usual = { "/tmp/nvidia-mps/control": "" };
    assert.match(
      told(t, off, "MPS", { files: usual }),
      /\/tmp\/nvidia-mps exists, but its server may have ended\n/,
    );
  });
});

describe("GPU sharing checks: MIG", () => {
  it("recognises an instance by its UUID, its name, or the visible devices", (t) => {
    const rules = /^this device is a MIG instance\n.*compute instances.*not between GPU instances/;
    assert.match(told(t, gpu({}, "NVIDIA H200", UUID.replace("GPU", "MIG")), "MIG"), rules);
    assert.match(told(t, gpu({}, "NVIDIA H200 MIG 1g.18gb"), "MIG"), rules);
    const env = { CUDA_VISIBLE_DEVICES: `MIG-77, ${UUID.replace("GPU", "MIG")}` };
    assert.match(told(t, gpu({}), "MIG", { env }), rules);
  });

  it("does not mistake a whole GPU for one", (t) => {
    assert.equal(told(t, gpu({}), "MIG", { env: { CUDA_VISIBLE_DEVICES: `${UUID},MIG-77` } }), "");
    assert.equal(told(t, gpu({}, "MIGHTY GPU"), "MIG"), "");
  });

  it("prints the variables that select GPUs", (t) => {
    const words = (env: NodeJS.ProcessEnv) =>
      wordsOf(visibilityChecks(surroundingsOf(t, { env })), "visible GPUs");
    assert.equal(words({}), "");
    assert.equal(words({ CUDA_VISIBLE_DEVICES: "1,0" }), "CUDA_VISIBLE_DEVICES=1,0");
    assert.match(
      words({ CUDA_VISIBLE_DEVICES: "MIG-77" }),
      /^CUDA_VISIBLE_DEVICES=MIG-77\nnames MIG instances/,
    );
    assert.equal(words({ NVIDIA_VISIBLE_DEVICES: "all" }), "NVIDIA_VISIBLE_DEVICES=all");
  });
});

describe("GPU sharing checks: compute mode and memory", () => {
  it("mentions the mode only if it excludes processes, and says what to do", (t) => {
    for (const attributes of [{}, { COMPUTE_MODE: 0 }])
      assert.equal(told(t, gpu(attributes), "compute mode"), "");
    assert.match(
      told(t, gpu({ COMPUTE_MODE: 2 }), "compute mode"),
      /^prohibited: [\s\S]*to do: .*nvidia-smi -c DEFAULT$/,
    );
    assert.match(
      told(t, gpu({ COMPUTE_MODE: 3 }), "compute mode"),
      /^exclusive process: [\s\S]*MPS[\s\S]*to do: /,
    );
    assert.match(told(t, gpu({ COMPUTE_MODE: 7 }), "compute mode"), /^7, unknown to this program/);
  });

  it("recognises a GPU that shares the CPU's memory, on a Tegra or elsewhere", (t) => {
    assert.equal(told(t, gpu({ INTEGRATED: 0 }), "integrated"), "");
    assert.match(told(t, gpu({ INTEGRATED: 1 }), "integrated"), /does not look like a Tegra/);
    const files = { "/etc/nv_tegra_release": "" };
    assert.match(told(t, gpu({ INTEGRATED: 1 }), "integrated", { files }), /see Jetson above/);
  });

  it("are facts, like all surroundings: none makes the doctor fail", (t) => {
    const files = {
      "/.dockerenv": "",
      "/proc/version": "WSL2",
      "/proc/self/status": "Seccomp:\t2\n",
    };
    const around = surroundingsOf(t, { files, env: { CUDA_VISIBLE_DEVICES: "MIG-77" } });
    const of = gpu({ COMPUTE_MODE: 2, INTEGRATED: 1, MPS_ENABLED: 1 });
    const checks = [...checkSurroundings(around), ...gpuSharingChecks(of, around)];
    assert.ok(checks.length >= 10 && allWork(checks));
  });
});
