/** How a bridge logs in to NATS: all that NATS itself offers, passed through. */
import { readFileSync } from "node:fs";
import { CudaIpcError } from "../../base/errors.js";
import { fromNodeError } from "../../os/system-error.js";
import type { NatsTransport } from "./load-nats.js";

export interface NatsOptions {
  /** One or more URLs, with commas: `nats://`, `tls://`. */
  readonly url: string;
  /** The key-value bucket. Bridges with another bucket do not see each other. */
  readonly bucket: string;
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

const BUCKET = /^[A-Za-z0-9_-]{1,64}$/;

type ConnectionOptions = NonNullable<Parameters<NatsTransport["connect"]>[0]>;

/** @throws TypeError for a bucket that NATS does not take; SystemError for a file */
export function connectionOptions(
  { credsAuthenticator, nkeyAuthenticator }: NatsTransport,
  options: NatsOptions,
  name: string,
): ConnectionOptions {
  const { url, bucket, user, password, token, credsFile, nkeyFile } = options;
  const { caFile, certFile, keyFile } = options;
  if (!BUCKET.test(bucket))
    throw new TypeError(`bucket must be letters, digits, "_" and "-", not "${bucket}"`);
  const authenticator =
    credsFile !== undefined
      ? credsAuthenticator(bytesOf(credsFile))
      : nkeyFile !== undefined
        ? nkeyAuthenticator(bytesOf(nkeyFile))
        : undefined;
  const usesTls = [caFile, certFile, keyFile].some((file) => file !== undefined);
  return {
    servers: url.split(","),
    name,
    // A bridge goes on with what it has while NATS is away, however long that is.
    maxReconnectAttempts: -1,
    reconnectTimeWait: 500,
    pingInterval: 2000,
    maxPingOut: 2,
    timeout: 5000,
    ...(user === undefined ? {} : { user }),
    ...(password === undefined ? {} : { pass: password }),
    ...(token === undefined ? {} : { token }),
    ...(authenticator === undefined ? {} : { authenticator }),
    ...(usesTls ? { tls: definedOf({ caFile, certFile, keyFile }) } : {}),
  };
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

/** Without the password that a URL may have. */
function shownUrl(url: string): string {
  return url
    .split(",")
    .map((it) => it.replace(/\/\/[^@/]*@/, "//"))
    .join(",");
}

export function natsError(attempt: string, url: string, cause: unknown): CudaIpcError {
  const found = cause instanceof Error ? cause.message : String(cause);
  return new CudaIpcError("NATS_UNAVAILABLE", `Cannot ${attempt} at ${shownUrl(url)}: ${found}`, {
    cause,
  });
}
