/**
 * The package for Python beside what its users have today: a model's weights, arrays opened by
 * name, and 1 MiB handed to another process.
 */
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { connect } from "../src/index.js";
import {
  type Contender,
  comparedWith,
  figureOf,
  measureInTurns,
  type Outcome,
  type Times,
  valueFrom,
} from "./channel/in-turns.js";
import { HubProcess } from "./hub/hub-process.js";
import type { Row } from "./measure.js";
import { writeModel } from "./model-file.js";
import { type Program, runTogether } from "./processes.js";

const MiB = 1024 * 1024;
const GiB = 1024 * MiB;
const ABSENT = 3;
const PYTHON_LIMIT_MS = 60_000;
const WEIGHTS_LIMIT_MS = 240_000;
const TENSORS = 584;
const WEIGHTS_RATIO_MIN = 100;
const OPEN_US_MAX = 1000;
const HANDOVER_RATIO_MIN = 10;

const python = process.env.PYTHON ?? "python3";
const p50 = (times: Times) => times.p50;

export interface PythonOptions {
  readonly modelBytes: number;
  /** How often the model is loaded in each way. */
  readonly loads: number;
  readonly arrayBytes: number;
  readonly opens: number;
  readonly messages: number;
  readonly messageBytes: number;
  readonly rounds: number;
}

export function fullScale(modelBytes: number | undefined, device: string): PythonOptions {
  const onHost = device === "host";
  return {
    modelBytes: modelBytes ?? (onHost ? GiB / 4 : 12 * GiB),
    loads: 7,
    arrayBytes: GiB,
    opens: 200,
    messages: 1000,
    messageBytes: MiB,
    rounds: 3,
  };
}

export async function pythonFrameworks(device: string, options: PythonOptions): Promise<Row[]> {
  await using hub = await HubProcess.start();
  const env = { CUDA_IPC_SOCKET: hub.socket, PYTHONPATH: withOwnPackage() };
  const setting = { device, env, options };
  return [...(await weights(setting)), ...(await opens(setting)), ...(await handovers(setting))];
}

interface Setting {
  readonly device: string;
  readonly env: Readonly<Record<string, string>>;
  readonly options: PythonOptions;
}

async function weights({ device, env, options }: Setting): Promise<Row[]> {
  const { modelBytes, loads } = options;
  const folder = mkdtempSync(join(tmpdir(), "cuda-ipc-bench-"));
  const path = join(folder, "model.safetensors");
  try {
    await writeModel(path, modelBytes, { dtype: "bfloat16", count: TENSORS });
    await using hub = await connect({ socket: env.CUDA_IPC_SOCKET, device });
    using _model = await hub.load("bench-model", path);
    const args = [programOf("model_weights.py"), path, "bench-model", String(loads), device];
    const found = await runTogether([{ command: python, args, env }], {
      timeoutMs: WEIGHTS_LIMIT_MS,
    }).catch((error: Error) => error.message);
    const outcome = (name: string): Outcome =>
      typeof found === "string"
        ? found
        : (found.find((it) => it.name === name)?.us ?? `it printed nothing of ${name}`);
    const [file, name] = [outcome("weights-file"), outcome("weights-name")];
    const ratio = figureOf(file, p50) / figureOf(name, p50);
    const what = `${(modelBytes / GiB).toFixed(2)} GiB of weights in ${TENSORS} tensors`;
    const goal = `at least ${WEIGHTS_RATIO_MIN} times faster than the file`;
    return [
      { what: `${what}, by name, p50`, ...milliseconds(name), unit: "ms" },
      {
        what: `${what}, by safetensors' load_file, p50`,
        ...milliseconds(file),
        unit: "ms",
        ...comparedWith("the time by name", ratio),
        ...(device === "host" || !Number.isFinite(ratio)
          ? {}
          : { goal, met: ratio >= WEIGHTS_RATIO_MIN }),
      },
    ];
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function opens({ device, env, options }: Setting): Promise<Row[]> {
  const { arrayBytes, opens, rounds } = options;
  await using hub = await connect({ socket: env.CUDA_IPC_SOCKET, device });
  using array = await hub.create("bench-array", { dtype: "uint8", shape: [arrayBytes] });
  await array.publish();
  const args = [programOf("open_arrays.py"), "bench-array", String(opens)];
  const programs = [{ command: python, args, env }];
  const { own } = await measureInTurns(
    { own: { name: "open-array", programs } },
    { rounds, by: "p50" },
  );
  const us = figureOf(own, p50);
  return [
    {
      what: `open ${arrayBytes / MiB} MiB by name, p50`,
      ...valueFrom(own, p50),
      unit: "us",
      goal: `under ${OPEN_US_MAX / 1000} ms`,
      met: us < OPEN_US_MAX,
    },
  ];
}

async function handovers({ device, env, options }: Setting): Promise<Row[]> {
  const { messages, messageBytes, rounds } = options;
  const contenders = {
    own: {
      name: "own-handover",
      programs: [handover("own_handover.py", env, [messages, device, messageBytes])],
    },
    torch: onGpu("torch-handover", device, "torch_handover.py", env, [
      messages,
      device,
      1,
      messageBytes,
    ]),
    core: onGpu("core-handover", device, "core_handover.py", env, [messages, device, messageBytes]),
  };
  const found = await measureInTurns(contenders, { rounds, by: "p50" });
  const what = `${messageBytes / MiB} MiB handed over and acknowledged`;
  const beside = (peer: "torch" | "core", words: string): Row => {
    const ratio = figureOf(found[peer], p50) / figureOf(found.own, p50);
    const goal = `at least ${HANDOVER_RATIO_MIN} times slower`;
    return {
      what: `${what}, ${words}, p50`,
      ...valueFrom(found[peer], p50),
      unit: "us",
      ...comparedWith("ours", ratio),
      ...(Number.isFinite(ratio) ? { goal, met: ratio >= HANDOVER_RATIO_MIN } : {}),
    };
  };
  return [
    { what: `${what}, by a channel, p50`, ...valueFrom(found.own, p50), unit: "us" },
    beside("torch", "by torch.multiprocessing"),
    beside("core", "by cuda.core in a queue"),
  ];
}

function handover(
  file: string,
  env: Readonly<Record<string, string>>,
  args: readonly (string | number)[],
): Program {
  return { command: python, args: [programOf(file), ...args.map(String)], env };
}

/**
 * A program that needs a GPU and a package. A first run without messages finds out whether both are
 * there: if one is missing, the table says so, and the benchmark does not fail.
 */
function onGpu(
  name: string,
  device: string,
  file: string,
  env: Readonly<Record<string, string>>,
  args: readonly (string | number)[],
): Contender {
  if (device === "host") return { name, programs: "needs a GPU" };
  const probe = handover(file, env, [0, device]);
  const { status, error, stderr } = spawnSync(probe.command, probe.args, {
    encoding: "utf8",
    timeout: PYTHON_LIMIT_MS,
  });
  if (error !== undefined) return { name, programs: `${python}: ${error.message}` };
  if (status === ABSENT) return { name, programs: stderr.trim() };
  return { name, programs: [handover(file, env, args)] };
}

function milliseconds(outcome: Outcome) {
  return valueFrom(outcome, (times) => times.p50 / 1000);
}

function programOf(file: string): string {
  return fileURLToPath(new URL(`../../bench/python/${file}`, import.meta.url));
}

function withOwnPackage(): string {
  return [resolve("python/src"), process.env.PYTHONPATH].filter(Boolean).join(":");
}
