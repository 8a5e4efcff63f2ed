/**
 * The client of NATS, an optional package. It is loaded when a bridge starts, and by nothing else.
 */
import { createRequire } from "node:module";
import { CudaIpcError } from "../../base/errors.js";

export type NatsTransport = typeof import("@nats-io/transport-node");
export type NatsKv = typeof import("@nats-io/kv");

type KvmArgument = ConstructorParameters<NatsKv["Kvm"]>[0];
type Connection = Awaited<ReturnType<NatsTransport["connect"]>>;
type Jetstream = (connection: Connection, options: { readonly domain: string }) => KvmArgument;

export interface NatsClient {
  readonly transport: NatsTransport;
  readonly kv: NatsKv;
  /** Loads the client of JetStream, which only a domain needs. */
  jetstream(): Jetstream;
}

/** @throws ENGINE_NOT_FOUND */
export async function loadNats(): Promise<NatsClient> {
  try {
    const [transport, kv] = await Promise.all([
      import("@nats-io/transport-node"),
      import("@nats-io/kv"),
    ]);
    return { transport, kv, jetstream };
  } catch (cause) {
    throw new CudaIpcError(
      "ENGINE_NOT_FOUND",
      "Cannot load the client of NATS: it is not installed beside cuda-ipc",
      { cause, remedy: "Run: npm install @nats-io/transport-node @nats-io/kv" },
    );
  }
}

/** WHY as seen from kv: it depends on this package, which its users need not install. */
function jetstream(): Jetstream {
  const kv = createRequire(import.meta.url).resolve("@nats-io/kv");
  return createRequire(kv)("@nats-io/jetstream").jetstream as Jetstream;
}
