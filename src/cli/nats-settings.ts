/** How commands log in to NATS: by options of the bridge, which have variables of their own. */
import { Option } from "commander";
import type { NatsOptions } from "../bridge/names/nats-options.js";
import { UsageError } from "./terminal/error-report.js";

const BUCKET = "cuda-ipc";

/** The options of a command, as Commander names them. */
export interface NatsSettings {
  readonly nats?: string;
  readonly bucket: string;
  readonly domain?: string;
  readonly user?: string;
  readonly token?: string | undefined;
  readonly creds?: string;
  readonly nkey?: string;
  readonly tlsCa?: string;
  readonly tlsCert?: string;
  readonly tlsKey?: string;
}

type Environment = Readonly<Record<string, string | undefined>>;

/** WHY variables: `doctor` tries the login of the bridge without its command line. */
const variables = {
  nats: "CUDA_IPC_NATS",
  bucket: "CUDA_IPC_NATS_BUCKET",
  domain: "CUDA_IPC_NATS_DOMAIN",
  user: "CUDA_IPC_NATS_USER",
  token: "CUDA_IPC_NATS_TOKEN",
  creds: "CUDA_IPC_NATS_CREDS",
  nkey: "CUDA_IPC_NATS_NKEY",
  tlsCa: "CUDA_IPC_NATS_TLS_CA",
  tlsCert: "CUDA_IPC_NATS_TLS_CERT",
  tlsKey: "CUDA_IPC_NATS_TLS_KEY",
} as const satisfies Record<keyof NatsSettings, string>;

export function natsServerOption(): Option {
  const text = "the NATS server, 2.11 or newer, such as nats://10.0.0.1";
  return new Option("--nats <urls>", text).env(variables.nats);
}

export function natsLoginOptions(): readonly Option[] {
  const { bucket, domain, user, token, creds, nkey, tlsCa, tlsCert, tlsKey } = variables;
  return [
    new Option("--bucket <name>", "bridges with another bucket do not see each other")
      .default(BUCKET)
      .env(bucket),
    new Option("--domain <name>", "the JetStream domain of the bucket; default: the server's").env(
      domain,
    ),
    new Option("--user <name>", "log in to NATS; the password is in CUDA_IPC_NATS_PASSWORD").env(
      user,
    ),
    // Refused by `natsOptions`, which says what to do instead.
    new Option("--token <token>", `refused: set ${token}`).hideHelp(),
    new Option("--creds <file>", "log in to NATS with the JWT and seed in this file").env(creds),
    new Option("--nkey <file>", "log in to NATS with the nkey seed in this file").env(nkey),
    new Option("--tls-ca <file>", "the certificate authority of the NATS server").env(tlsCa),
    new Option("--tls-cert <file>", "this bridge's certificate for NATS").env(tlsCert),
    new Option("--tls-key <file>", "the key of --tls-cert").env(tlsKey),
  ];
}

/**
 * Undefined if no server is named.
 * @throws UsageError for a token among the arguments
 */
export function natsOptions(
  settings: NatsSettings,
  environment: Environment = process.env,
): NatsOptions | undefined {
  const { nats, bucket, domain, user, creds, nkey, tlsCa, tlsCert, tlsKey } = settings;
  if (settings.token !== undefined)
    throw new UsageError(
      `--token is refused, because others can read it. Give the token in ${variables.token}`,
    );
  if (nats === undefined || nats === "") return undefined;
  return {
    url: nats,
    bucket,
    // An empty variable is none.
    domain: domain === "" ? undefined : domain,
    user,
    // WHY not options: others can read the arguments of a process.
    password: user === undefined ? undefined : environment.CUDA_IPC_NATS_PASSWORD,
    token: environment[variables.token],
    credsFile: creds,
    nkeyFile: nkey,
    caFile: tlsCa,
    certFile: tlsCert,
    keyFile: tlsKey,
  };
}

/** As a bridge takes them that has no options. Undefined if no server is named. */
export function natsOptionsOfEnvironment(environment: Environment): NatsOptions | undefined {
  const settings = Object.fromEntries(
    Object.entries(variables).map(([name, variable]) => [name, environment[variable]]),
  ) as { readonly [Name in keyof NatsSettings]: string | undefined } as NatsSettings;
  const { bucket = BUCKET } = settings;
  return natsOptions({ ...settings, token: undefined, bucket }, environment);
}
