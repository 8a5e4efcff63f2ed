/**
 * The client of NATS, an optional package. It is loaded when a bridge starts, and by nothing else.
 */
import { CudaIpcError } from "../../base/errors.js";

export type NatsTransport = typeof import("@nats-io/transport-node");
export type NatsKv = typeof import("@nats-io/kv");

export interface NatsClient {
  readonly transport: NatsTransport;
  readonly kv: NatsKv;
}

/** @throws ENGINE_NOT_FOUND */
export async function loadNats(): Promise<NatsClient> {
  try {
    const [transport, kv] = await Promise.all([
      import("@nats-io/transport-node"),
      import("@nats-io/kv"),
    ]);
    return { transport, kv };
  } catch (cause) {
    throw new CudaIpcError(
      "ENGINE_NOT_FOUND",
      "Cannot load the client of NATS: it is not installed beside cuda-ipc",
      { cause, remedy: "Run: npm install @nats-io/transport-node @nats-io/kv" },
    );
  }
}
