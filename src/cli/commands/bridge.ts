/** `cuda-ipc bridge`: shares arrays with other machines until it is interrupted. */
import { hostname } from "node:os";
import { type Command, Option } from "commander";
import { CudaIpcError } from "../../base/errors.js";
import type { NatsOptions } from "../../bridge/names/nats-options.js";
import { isValidName } from "../../wire/names.js";
import { deviceOption, socketOption } from "../arguments.js";
import type { CommandContext } from "../command-context.js";
import { joinOrStartHub } from "../join-hub.js";
import { matchesAny } from "../name-pattern.js";
import { UsageError } from "../terminal/error-report.js";

interface BridgeOptions {
  readonly nats?: string;
  readonly socket?: string;
  readonly machine?: string;
  readonly announce?: readonly string[];
  readonly pull?: readonly string[];
  readonly device?: string;
  readonly keepReplicas?: boolean;
  readonly bucket: string;
  readonly user?: string;
  readonly token?: string;
  readonly creds?: string;
  readonly nkey?: string;
  readonly tlsCa?: string;
  readonly tlsCert?: string;
  readonly tlsKey?: string;
}

export function addBridge(program: Command, context: CommandContext): Command {
  const collect = (pattern: string, earlier: readonly string[] = []) => [...earlier, pattern];
  return program
    .command("bridge")
    .helpCommand(false)
    .description("share arrays with other machines, over NATS and UCX, until Ctrl-C")
    .addOption(
      new Option("--nats <urls>", "the NATS server, 2.11 or newer, such as nats://10.0.0.1").env(
        "CUDA_IPC_NATS",
      ),
    )
    .option("--announce <pattern>", "names that other machines may copy; repeatable", collect)
    .option("--pull <pattern>", "names to copy here as soon as a machine has them", collect)
    .option("--machine <name>", "this machine's name for the others (default: its host name)")
    .option("--keep-replicas", "keep a copy when its original is removed")
    .addOption(deviceOption("where copies are made: host, or cuda:N for a GPU (default: host)"))
    .addOption(socketOption())
    .option("--bucket <name>", "bridges with another bucket do not see each other", "cuda-ipc")
    .option("--user <name>", "log in to NATS; the password is in CUDA_IPC_NATS_PASSWORD")
    .addOption(new Option("--token <token>", "log in to NATS").env("CUDA_IPC_NATS_TOKEN"))
    .option("--creds <file>", "log in to NATS with the JWT and seed in this file")
    .option("--nkey <file>", "log in to NATS with the nkey seed in this file")
    .option("--tls-ca <file>", "the certificate authority of the NATS server")
    .option("--tls-cert <file>", "this bridge's certificate for NATS")
    .option("--tls-key <file>", "the key of --tls-cert")
    .addHelpText(
      "after",
      "\nThe bytes that UCX carries are not encrypted: see docs/machines.md.\n\n" +
        "Example, on two machines:\n" +
        "  $ cuda-ipc bridge --nats nats://10.0.0.1 --announce 'weights*'\n" +
        "  $ cuda-ipc bridge --nats nats://10.0.0.1 & cuda-ipc pull weights",
    )
    .action((options: BridgeOptions) => bridge(options, context));
}

async function bridge(options: BridgeOptions, context: CommandContext): Promise<void> {
  const { signal, interruption } = context;
  const { announce = [], pull = [], keepReplicas = false, device = "host" } = options;
  const machine = chosenMachine(options);
  const nats = natsOptions(options);
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
    device,
    isAnnounced: (name) => matchesAny(name, announce),
    isPulled: (name) => matchesAny(name, pull),
    keepReplicas,
    log,
    signal,
  });
  try {
    const { version, path } = running.ucx;
    log(`machine "${machine}" is bridged by NATS ${running.natsVersion} and UCX ${version}`);
    log(`UCX is ${path} and can use ${running.ucx.transports().join(", ")}`);
    log("what UCX carries is not encrypted: use a private network");
    const failure = await Promise.race([running.failed, interruption.received()]);
    if (failure instanceof CudaIpcError) throw failure;
  } finally {
    await running.close();
  }
  log("interrupted: bridge ended");
}

function chosenMachine({ machine }: BridgeOptions): string {
  const chosen = machine ?? hostname();
  if (isValidName(chosen)) return chosen;
  const rule = "letters, digits, '.', '_', '-' or ':'";
  throw new UsageError(`"${chosen}" cannot be a machine's name: give --machine ${rule}`);
}

function natsOptions(options: BridgeOptions): NatsOptions {
  const { nats, bucket, user, token, creds, nkey, tlsCa, tlsCert, tlsKey } = options;
  if (nats === undefined || nats === "")
    throw new UsageError("give the NATS server with --nats or CUDA_IPC_NATS");
  if (!/^[A-Za-z0-9_-]{1,64}$/.test(bucket))
    throw new UsageError("--bucket takes 1 to 64 letters, digits, '_' and '-'");
  return {
    url: nats,
    bucket,
    user,
    // WHY not an option: others can read the arguments of a process.
    password: user === undefined ? undefined : process.env.CUDA_IPC_NATS_PASSWORD,
    token,
    credsFile: creds,
    nkeyFile: nkey,
    caFile: tlsCa,
    certFile: tlsCert,
    keyFile: tlsKey,
  };
}
