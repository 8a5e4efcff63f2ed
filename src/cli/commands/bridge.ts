/** `cuda-ipc bridge`: shares arrays with other machines until it is interrupted. */
import { hostname } from "node:os";
import { setFlagsFromString } from "node:v8";
import { type Command, Option } from "commander";
import { CudaIpcError } from "../../base/errors.js";
import type { NatsOptions } from "../../bridge/names/nats-options.js";
import { UID_MAX } from "../../client/connection/hub-trust.js";
import { isValidName, nameRule } from "../../wire/names.js";
import { deviceOption, socketOption } from "../arguments.js";
import type { CommandContext } from "../command-context.js";
import { joinOrStartHub } from "../join-hub.js";
import { matchesAny } from "../name-pattern.js";
import {
  type NatsSettings,
  natsLoginOptions,
  natsOptions,
  natsServerOption,
} from "../nats-settings.js";
import { interfaceNames } from "../network-interfaces.js";
import { UsageError } from "../terminal/error-report.js";
import { shortened } from "../terminal/words.js";

interface BridgeOptions extends NatsSettings {
  readonly socket?: string;
  readonly machine?: string;
  readonly interface?: string;
  readonly announce?: readonly string[];
  readonly pull?: readonly string[];
  readonly workers?: readonly number[];
  readonly device?: string;
  readonly keepReplicas?: boolean;
}

export function addBridge(program: Command, context: CommandContext): Command {
  const collect = (pattern: string, earlier: readonly string[] = []) => [...earlier, pattern];
  const command = program
    .command("bridge")
    .helpCommand(false)
    .description("share arrays with other machines, over NATS and UCX, until Ctrl-C")
    .addOption(natsServerOption())
    .addOption(
      new Option(
        "--interface <interface>",
        "the only network interface of UCX, such as eth0 or mlx5_0:1; required",
      ).env("CUDA_IPC_BRIDGE_INTERFACE"),
    )
    .option("--announce <pattern>", "names that other machines may copy; repeatable", collect)
    .option("--pull <pattern>", "names to copy here as soon as a machine has them", collect)
    .option("--workers <uids>", "users whose workers other machines may use, with commas", uidsIn)
    .option("--machine <name>", "this machine's name for the others (default: its host name)")
    .option("--keep-replicas", "keep a copy when its original is removed")
    .addOption(deviceOption("where copies are made: host, or cuda:N for a GPU (default: host)"))
    .addOption(socketOption());
  for (const option of natsLoginOptions()) command.addOption(option);
  return command
    .addHelpText(
      "after",
      "\nThe bytes that UCX carries are not encrypted, and whoever reaches its ports can take\n" +
        "the bridge over. Name an interface of a private network: see docs/machines.md.\n\n" +
        "Example, on two machines:\n" +
        "  $ cuda-ipc bridge --nats nats://10.0.0.1 --interface eth0 --announce 'weights*'\n" +
        "  $ cuda-ipc bridge --nats nats://10.0.0.1 --interface eth0 & cuda-ipc pull weights",
    )
    .action((options: BridgeOptions) => bridge(options, context));
}

async function bridge(options: BridgeOptions, context: CommandContext): Promise<void> {
  // WHY: V8 lets the young generation grow to 16 MiB. With 10,000 names, that is 30 MiB more.
  setFlagsFromString("--semi-space-growth-factor=1");
  const { signal, interruption } = context;
  const { announce = [], pull = [], keepReplicas = false, device = "host" } = options;
  const machine = chosenMachine(options);
  const nats = chosenNats(options);
  const networkInterface = chosenInterface(options);
  await using hub = await joinOrStartHub(context, "bridge", options);
  // Opened first, so that an unknown device is refused before others see this machine.
  hub.device(device);
  // WHY here: whoever uses one machine loads none of it.
  const { Bridge } = await import("../../bridge/bridge.js");
  const { bridgeLog: log } = await import("../../bridge/bridge-log.js");
  const running = await Bridge.start({
    hub,
    nats,
    machine,
    networkInterface,
    device,
    isAnnounced: (name) => matchesAny(name, announce),
    isPulled: (name) => matchesAny(name, pull),
    workers: options.workers ?? [],
    keepReplicas,
    log,
    signal,
  });
  try {
    const { version, path } = running.ucx;
    log(`machine "${machine}" is bridged by NATS ${running.natsVersion} and UCX ${version}`);
    log(`UCX is ${path} and can use ${running.ucx.transports().join(", ")}`);
    log(`it listens on "${networkInterface}" alone: who reaches that can take this bridge over`);
    log("what UCX carries is not encrypted: use a private network");
    const failure = await Promise.race([running.failed, interruption.received()]);
    if (failure instanceof CudaIpcError) throw failure;
  } finally {
    await running.close();
  }
  log("interrupted: bridge ended");
}

/** @throws UsageError */
function uidsIn(text: string): readonly number[] {
  const uids = text.split(",").map((uid) => (/^\d{1,10}$/.test(uid) ? Number(uid) : Number.NaN));
  if (uids.every((uid) => uid <= UID_MAX)) return uids;
  throw new UsageError(`--workers takes uids such as 1001,1002, not "${shortened(text, 60)}"`);
}

function chosenMachine({ machine }: BridgeOptions): string {
  const chosen = machine ?? hostname();
  if (isValidName(chosen)) return chosen;
  const shown = shortened(chosen, 60);
  throw new UsageError(`"${shown}" cannot be a machine's name: give --machine ${nameRule}`);
}

/** @throws UsageError if none is named, or none has that name */
function chosenInterface({ interface: chosen = "" }: BridgeOptions): string {
  const names = interfaceNames();
  if (names.includes(chosen)) return chosen;
  const found = `this machine has ${names.join(", ")}`;
  throw new UsageError(
    chosen === ""
      ? `name the interface on which other machines reach UCX, with --interface: ${found}`
      : `there is no interface "${shortened(chosen, 60)}" for --interface: ${found}`,
  );
}

/** @throws UsageError */
function chosenNats(options: BridgeOptions): NatsOptions {
  const chosen = natsOptions(options);
  if (chosen === undefined)
    throw new UsageError("give the NATS server with --nats or CUDA_IPC_NATS");
  for (const [option, value] of Object.entries({ bucket: chosen.bucket, domain: chosen.domain }))
    if (value !== undefined && !/^[A-Za-z0-9_-]{1,64}$/.test(value))
      throw new UsageError(`--${option} takes 1 to 64 letters, digits, '_' and '-'`);
  return chosen;
}
