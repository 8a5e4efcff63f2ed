/**
 * Measures a ring of 64 slots of 64 KiB in device memory between the streams of two processes:
 * copies, and kernels on both sides, beside the same in C, with and without MPS. Also measures
 * rings of 8 and 256 slots, because without MPS the GPU works for one process until the ring is
 * full or empty. For comparison, measures how long PyTorch takes to pass a tensor.
 */
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { CPrograms } from "../c-programs.js";
import { HubProcess } from "../hub/hub-process.js";
import type { Row } from "../measure.js";
import {
  type Contender,
  comparedWith,
  figureOf,
  measureInTurns,
  type Outcome,
  type Times,
  valueFrom,
} from "./in-turns.js";
import { MultiProcessService } from "./mps.js";
import { inC, throughChannel } from "./programs.js";

export interface DeviceOptions {
  readonly messages: number;
  /** The number of messages through PyTorch, which is slower. */
  readonly handovers: number;
  readonly rounds: number;
}

type Loop = "channel-copies" | "channel-kernels";

const FULL_SCALE: DeviceOptions = { messages: 10_000, handovers: 1000, rounds: 3 };
const HOST_SCALE: DeviceOptions = { ...FULL_SCALE, messages: 1000 };
const RATIO_MAX = 1.15;
const TORCH_RATIO_MIN = 30;
/** Further rings, beside the one of 64 slots. */
const DEPTHS = [8, 256] as const;
/** The slots of the ring that is compared with PyTorch. */
const DEEP = 256;
/** How many tensors PyTorch sends before it looks for acknowledgements. */
const TORCH_AHEAD = 64;
const TENSOR_BYTES = 64 * 1024;
const TORCH_ABSENT = 3;
/** Importing PyTorch takes seconds the first time. */
const PYTHON_LIMIT_MS = 60_000;
const loops: Readonly<Record<Loop, string>> = {
  "channel-copies": "a copy into a slot of 64 KiB and one out of it",
  "channel-kernels": "a kernel that fills a slot of 64 KiB and one that uses it",
};
const p50 = (times: Times) => times.p50;
/**
 * The mean: if two processes take turns on a GPU, half of the samples can be short because the
 * others are long.
 */
const mean = (times: Times) => times.mean;

/** On the host device there are no goals, because its streams are queues on the event loop. */
export async function throughStreams(
  loop: Loop,
  device: string,
  options: DeviceOptions = device === "host" ? HOST_SCALE : FULL_SCALE,
): Promise<Row[]> {
  await using hub = await HubProcess.start();
  using c = new CPrograms(device);
  const alone = await besideC(loop, { hub, c, device, options });
  const rows = compared(loops[loop], alone, device);
  if (device === "host") return rows;
  if (loop === "channel-copies") {
    for (const slots of DEPTHS) rows.push(await throughSlots(slots, { hub, c, device, options }));
  }
  const withMps = await underMps((env) => besideC(loop, { hub, c, device, options, env }));
  return [...rows, ...compared(`${loops[loop]}, with MPS`, withMps, device)];
}

async function throughSlots(
  slots: number,
  { hub, device, options: { messages, rounds } }: Setting,
): Promise<Row> {
  const few = throughChannel("channel-copies", hub, {
    device,
    iterations: messages,
    extra: [String(slots)],
  });
  const { found } = await measureInTurns({ found: few }, { rounds, by: "mean" });
  const what = `${loops["channel-copies"]}, in a ring of ${slots} slots, mean`;
  return { what, ...valueFrom(found, mean), unit: "us" };
}

/** Copies through a channel and through PyTorch's queue, without MPS and, on a GPU, with it. */
export async function besideTorch(
  device: string,
  options: DeviceOptions = device === "host" ? HOST_SCALE : FULL_SCALE,
): Promise<Row[]> {
  await using hub = await HubProcess.start();
  const rows = torchRows("", await besideQueue(hub, device, options));
  if (device === "host") return rows;
  using mps = disposable(MultiProcessService.start());
  if (typeof mps.it === "string") return rows;
  return [...rows, ...torchRows(", with MPS", await besideQueue(hub, device, options, mps.it.env))];
}

type BesideTorch = Readonly<Record<"ours" | "torch" | "ahead", Outcome>>;

function besideQueue(
  hub: HubProcess,
  device: string,
  { messages: iterations, handovers }: DeviceOptions,
  env: Readonly<Record<string, string>> = {},
): Promise<BesideTorch> {
  const ours = throughChannel("channel-copies", hub, {
    device,
    iterations,
    env,
    extra: [String(DEEP)],
  });
  const torch = torchHandover(device, { handovers, ahead: 1, env });
  const ahead = torchHandover(device, { handovers, ahead: TORCH_AHEAD, env });
  return measureInTurns({ ours, torch, ahead }, { rounds: 1, by: "p50" });
}

function torchRows(how: string, { ours, torch, ahead }: BesideTorch): Row[] {
  const ratio = figureOf(torch, p50) / figureOf(ours, mean);
  const row: Row = {
    what: `a tensor of 64 KiB by torch.multiprocessing, acknowledged${how}, p50`,
    ...valueFrom(torch, p50),
    unit: "us",
    ...comparedWith("ours", ratio),
  };
  // No goal without PyTorch, because there is nothing to compare with.
  const goal = {
    goal: `ours at least ${TORCH_RATIO_MIN} times faster`,
    met: ratio >= TORCH_RATIO_MIN,
  };
  return [
    {
      what: `${loops["channel-copies"]}, in a ring of ${DEEP} slots${how}, mean`,
      ...valueFrom(ours, mean),
      unit: "us",
    },
    typeof torch === "string" ? row : { ...row, ...goal },
    {
      what: `the same, with up to ${TORCH_AHEAD} tensors under way${how}, p50`,
      ...valueFrom(ahead, p50),
      unit: "us",
      ...comparedWith("ours", figureOf(ahead, p50) / figureOf(ours, mean)),
    },
  ];
}

interface Setting {
  readonly hub: HubProcess;
  readonly c: CPrograms;
  readonly device: string;
  readonly options: DeviceOptions;
  readonly env?: Readonly<Record<string, string>>;
}

type BesideC = Readonly<Record<"ours" | "c", Outcome>>;

function besideC(loop: Loop, { hub, c, device, options, env = {} }: Setting): Promise<BesideC> {
  const { messages: iterations, rounds } = options;
  return measureInTurns(
    {
      ours: throughChannel(loop, hub, { device, iterations, env }),
      c: inC(loop, c, { iterations, env }),
    },
    { rounds, by: "mean" },
  );
}

async function underMps(
  measure: (env: Readonly<Record<string, string>>) => Promise<BesideC>,
): Promise<BesideC> {
  using mps = disposable(MultiProcessService.start());
  if (typeof mps.it === "string") return { ours: mps.it, c: mps.it };
  const found = await measure(mps.it.env);
  if (mps.it.wasUsed) return found;
  const unused = "MPS ran, but no process used it";
  return { ours: unused, c: unused };
}

function disposable(it: MultiProcessService | string) {
  return {
    it,
    [Symbol.dispose]() {
      if (typeof it !== "string") it[Symbol.dispose]();
    },
  };
}

function compared(what: string, { ours, c }: BesideC, device: string): Row[] {
  const ratio = figureOf(ours, mean) / figureOf(c, mean);
  // A goal without a result counts as missed. Without MPS there is no goal.
  const isJudged = device !== "host" && (typeof ours !== "string" || !what.endsWith("MPS"));
  const goal = isJudged ? { goal: `within ${RATIO_MAX} times C`, met: ratio <= RATIO_MAX } : {};
  return [
    {
      what: `${what}, mean`,
      ...valueFrom(ours, mean),
      unit: "us",
      ...comparedWith("C", ratio),
      ...goal,
    },
    { what: `${what}, in C, mean`, ...valueFrom(c, mean), unit: "us" },
  ];
}

interface TorchOptions {
  readonly handovers: number;
  /** Tensors in flight. With 1, each is acknowledged before the next. */
  readonly ahead: number;
  readonly env: Readonly<Record<string, string>>;
}

function torchHandover(device: string, { handovers, ahead, env }: TorchOptions): Contender {
  const name = `torch-handover-${ahead}`;
  if (device === "host") return { name, programs: "needs a GPU" };
  const script = fileURLToPath(new URL("../../../bench/python/torch_handover.py", import.meta.url));
  // Checked first, because a Python without PyTorch is no failure.
  const { status, error, stderr } = spawnSync("python3", [script, "0"], {
    encoding: "utf8",
    timeout: PYTHON_LIMIT_MS,
  });
  if (error !== undefined) return { name, programs: `python3: ${error.message}` };
  if (status === TORCH_ABSENT) return { name, programs: stderr.trim() };
  return {
    name,
    programs: [
      {
        command: "python3",
        args: [script, ...[handovers, device, TENSOR_BYTES, ahead].map(String)],
        env,
      },
    ],
  };
}
