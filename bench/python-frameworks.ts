/**
 * The package for Python beside what its users have today: a model's weights, arrays opened by
 * name, and 1 MiB handed to another process.
 *
 * Without MPS two processes take turns on a GPU. If CUDA_IPC_BENCH_MPS names the pipe directory of a
 * running MPS daemon, the hand-overs are measured without it and with it.
 */
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { connect } from "../src/index.js";
import {
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
/** How many messages are in flight. */
const DEPTHS = [1, 64];

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
  /** How often each way to hand over is measured. */
  readonly handoverRounds: number;
}

export function fullScale(modelBytes: number | undefined, device: string): PythonOptions {
  const onHost = device === "host";
  return {
    modelBytes: modelBytes ?? (onHost ? GiB / 4 : 12 * GiB),
    loads: 5,
    arrayBytes: GiB,
    opens: 200,
    messages: 1000,
    messageBytes: MiB,
    rounds: 3,
    // With and without MPS, both fit into the time of one.
    handoverRounds: onHost ? 3 : process.env.CUDA_IPC_BENCH_MPS === undefined ? 2 : 1,
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

async function handovers(setting: Setting): Promise<Row[]> {
  const pipes = process.env.CUDA_IPC_BENCH_MPS;
  const plain = await handoversIn(setting, "");
  if (pipes === undefined || setting.device === "host") return plain;
  const env = { ...setting.env, CUDA_MPS_PIPE_DIRECTORY: pipes };
  return [...plain, ...(await handoversIn({ ...setting, env }, ", with MPS"))];
}

/** @param how ends the words of each row */
async function handoversIn({ device, env, options }: Setting, how: string): Promise<Row[]> {
  const { messages, messageBytes, handoverRounds } = options;
  const args = [messages, device, messageBytes, DEPTHS.join(",")];
  const contenders = {
    own: [handover("own_handover.py", env, args)],
    torch: onGpu(device, "torch_handover.py", env, args),
    core: onGpu(device, "core_handover.py", env, args),
  };
  const outcome = await measureDepths(contenders, handoverRounds);
  return DEPTHS.flatMap((depth) => {
    const size = `${messageBytes / MiB} MiB handed over and acknowledged`;
    const what = `${size}, ${depth === 1 ? "one at a time" : `${depth} in flight`}`;
    const own = outcome("own", depth);
    const beside = (peer: "torch" | "core", words: string): Row => {
      const ratio = figureOf(outcome(peer, depth), p50) / figureOf(own, p50);
      const goal = `at least ${HANDOVER_RATIO_MIN} times slower`;
      return {
        what: `${what}, ${words}${how}, p50`,
        ...valueFrom(outcome(peer, depth), p50),
        unit: "us",
        ...comparedWith("ours", ratio),
        ...(Number.isFinite(ratio) ? { goal, met: ratio >= HANDOVER_RATIO_MIN } : {}),
      };
    };
    return [
      { what: `${what}, by a channel${how}, p50`, ...valueFrom(own, p50), unit: "us" },
      beside("torch", "by torch.multiprocessing"),
      beside("core", "by cuda.core in a queue"),
    ];
  });
}

/** Runs each program in turns. A run measures all depths. Returns the median round of each. */
async function measureDepths<Way extends string>(
  contenders: Readonly<Record<Way, readonly Program[] | string>>,
  rounds: number,
): Promise<(way: Way, depth: number) => Outcome> {
  const found = new Map<string, Times[]>();
  const missing = new Map<Way, string>();
  for (let round = 0; round < rounds; round += 1) {
    for (const way of Object.keys(contenders) as Way[]) {
      const programs = contenders[way];
      if (typeof programs === "string") missing.set(way, programs);
      if (typeof programs === "string" || missing.has(way)) continue;
      const measured = await runTogether(programs).catch((error: Error) => error.message);
      if (typeof measured === "string") missing.set(way, measured);
      else for (const { name, us } of measured) found.set(name, [...(found.get(name) ?? []), us]);
    }
  }
  return (way, depth) => {
    const times = (found.get(`${way}-handover-${depth}`) ?? []).sort((a, b) => a.p50 - b.p50);
    const median = times[Math.floor((times.length - 1) / 2)];
    return missing.get(way) ?? median ?? `it printed nothing of depth ${depth}`;
  };
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
  device: string,
  file: string,
  env: Readonly<Record<string, string>>,
  args: readonly (string | number)[],
): readonly Program[] | string {
  if (device === "host") return "needs a GPU";
  const probe = handover(file, env, [0, device]);
  const { status, error, stderr } = spawnSync(probe.command, probe.args, {
    encoding: "utf8",
    timeout: PYTHON_LIMIT_MS,
  });
  if (error !== undefined) return `${python}: ${error.message}`;
  if (status === ABSENT) return stderr.trim();
  return [handover(file, env, args)];
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
