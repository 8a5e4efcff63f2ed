/** How a bridge logs in to NATS: all that NATS itself offers, passed through. */
import { readFileSync } from "node:fs";
import { isIP } from "node:net";
import { checkServerIdentity, type ConnectionOptions as TlsOptions } from "node:tls";
import { CudaIpcError } from "../../base/errors.js";
import { fromNodeError } from "../../os/system-error.js";
import type { NatsTransport } from "./load-nats.js";

export interface NatsOptions {
  /** One or more URLs, with commas: `nats://`, or `tls://`, which then holds for all of them. */
  readonly url: string;
  /** The key-value bucket. Bridges with another bucket do not see each other. */
  readonly bucket: string;
  /** The JetStream domain that has the bucket; default: that of the server. */
  readonly domain?: string | undefined;
  readonly user?: string | undefined;
  readonly password?: string | undefined;
  readonly token?: string | undefined;
  /** A file with a JWT and its seed, as `nsc` writes it. */
  readonly credsFile?: string | undefined;
  /** A file with the seed of an nkey. */
  readonly nkeyFile?: string | undefined;
  /** The certificate authority of the server, and this client's certificate and key. */
  readonly caFile?: string | undefined;
  readonly certFile?: string | undefined;
  readonly keyFile?: string | undefined;
}

const LOGIN =
  "Log in with --user and CUDA_IPC_NATS_PASSWORD, or with CUDA_IPC_NATS_TOKEN. " +
  "Leave the login out of the URL.";
/** Valid names: of a bucket for NATS, of a domain for bridges. */
const NAME = /^[A-Za-z0-9_-]{1,64}$/;

type ConnectionOptions = NonNullable<Parameters<NatsTransport["connect"]>[0]>;

/**
 * @throws TypeError for a bucket or domain that NATS does not take; NATS_UNAVAILABLE for a URL that
 * the client of NATS would misread; SystemError for a file
 */
export function connectionOptions(
  { credsAuthenticator, nkeyAuthenticator }: NatsTransport,
  options: NatsOptions,
  name: string,
): ConnectionOptions {
  const { url, bucket, domain, user, password, token, credsFile, nkeyFile } = options;
  const { caFile, certFile, keyFile } = options;
  for (const [what, value] of Object.entries({ bucket, domain }))
    if (value !== undefined && !NAME.test(value))
      throw new TypeError(`${what} must be letters, digits, "_" and "-", not "${value}"`);
  const servers = checkedServers(url);
  const authenticator =
    credsFile !== undefined
      ? credsAuthenticator(bytesOf(credsFile))
      : nkeyFile !== undefined
        ? nkeyAuthenticator(bytesOf(nkeyFile))
        : undefined;
  const usesTls =
    servers.some((it) => it.startsWith("tls://")) ||
    [caFile, certFile, keyFile].some((file) => file !== undefined);
  return {
    servers,
    name,
    // A bridge goes on with what it has while NATS is away, however long that is.
    maxReconnectAttempts: -1,
    reconnectTimeWait: 500,
    // A server that stands still is noticed after 4 to 8 s. Each ping wakes the bridge up twice.
    pingInterval: 4000,
    maxPingOut: 1,
    timeout: 5000,
    ...(user === undefined ? {} : { user }),
    ...(password === undefined ? {} : { pass: password }),
    ...(token === undefined ? {} : { token }),
    ...(authenticator === undefined ? {} : { authenticator }),
    ...(usesTls ? { tls: tlsOptions(servers, { caFile, certFile, keyFile }) } : {}),
  };
}

/**
 * The servers that a URL names. WHY checked: the client of NATS ignores the scheme and the login of
 * a URL. It would send unencrypted what `tls://` was to protect, and would not log in.
 */
function checkedServers(url: string): string[] {
  const servers = url.split(",").map((it) => it.trim());
  for (const server of servers) {
    const scheme = /^(\w+):\/\//.exec(server)?.[1];
    if (scheme !== undefined && scheme !== "nats" && scheme !== "tls")
      throw natsError("connect", url, `the scheme is ${scheme}://, wanted nats:// or tls://`);
    if (server.includes("@")) throw natsError("connect", url, "a URL may have no login", LOGIN);
  }
  return servers;
}

/**
 * Checks the certificate of a server that was named by its address. WHY: the client of NATS does
 * not pass the address on, and Node then wants a certificate for "localhost".
 */
function tlsOptions(
  servers: readonly string[],
  files: Readonly<Record<string, string | undefined>>,
): NonNullable<ConnectionOptions["tls"]> {
  const named = servers.map(hostOf);
  const addresses = named.filter((host) => isIP(host) !== 0);
  const own: TlsOptions = {
    checkServerIdentity: (host, certificate) => {
      const isGiven = host !== "localhost" || named.includes(host) || addresses.length === 0;
      const failures = (isGiven ? [host] : addresses).map((it) =>
        checkServerIdentity(it, certificate),
      );
      return failures.includes(undefined) ? undefined : failures[0];
    },
  };
  // The client passes all of them on to Node.
  return { ...definedOf(files), ...(own as object) };
}

/** Without scheme, port, and the brackets of IPv6. */
function hostOf(url: string): string {
  const rest = url.replace(/^\w+:\/\//, "");
  return /^\[(.*)\]/.exec(rest)?.[1] ?? rest.replace(/[:/].*$/, "");
}

function definedOf(fields: Readonly<Record<string, string | undefined>>): Record<string, string> {
  const found: Record<string, string> = {};
  for (const [key, value] of Object.entries(fields)) if (value !== undefined) found[key] = value;
  return found;
}

function bytesOf(path: string): Uint8Array {
  try {
    return readFileSync(path);
  } catch (error) {
    throw fromNodeError(`read ${path}`, error);
  }
}

/** Without the login that a URL may have, with its scheme or without. */
function shownUrl(url: string): string {
  return url
    .split(",")
    .map((it) => it.replace(/^(\w+:\/\/)?.*@/, "$1"))
    .join(",");
}

export function natsError(
  attempt: string,
  url: string,
  cause: unknown,
  remedy?: string,
): CudaIpcError {
  const found = cause instanceof Error ? cause.message : String(cause);
  const message = `Cannot ${attempt} at ${shownUrl(url)}: ${found}`;
  return new CudaIpcError("NATS_UNAVAILABLE", message, { cause, remedy });
}
