/** A hub, workers and clients for the tests of services. They all end with the rig. */
import assert from "node:assert/strict";
import type { Hub } from "../../../src/client/hub.js";
import { connectService, type ServiceClient } from "../../../src/service/service-client.js";
import type { ServiceMessage } from "../../../src/service/service-message.js";
import type { ConnectServiceOptions, ServeOptions } from "../../../src/service/service-options.js";
import { Actor } from "../../support/actor.js";
import { TestHub } from "../../support/test-hub.js";
import { soon, until } from "../../support/until.js";
import { HUB } from "../hub/tenant-rig.js";

const WORKER = new URL("./actors/worker.js", import.meta.url);
const CLIENT = new URL("./actors/client.js", import.meta.url);

export const SERVICE = "double";
export const MESSAGE = { dtype: "float64", shape: [8] } as const;

export interface Ask {
  readonly op?: "double" | "hold" | "stubborn" | "throw" | "die";
  readonly id?: number;
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
}

export interface Answer {
  readonly pid: number;
  readonly id: number;
}

export class ServiceRig {
  readonly hub: TestHub;
  readonly #ends: (() => Promise<unknown>)[] = [];

  private constructor(hub: TestHub) {
    this.hub = hub;
  }

  static async start(): Promise<ServiceRig> {
    return new ServiceRig(await TestHub.start());
  }

  async worker(options: Partial<ServeOptions> = {}, name = SERVICE): Promise<Actor> {
    const worker = await startWorker(this.hub.socket, name, options);
    this.#ends.push(() => worker[Symbol.asyncDispose]());
    return worker;
  }

  async clientProcess(): Promise<Actor> {
    const client = new Actor(CLIENT, { args: [this.hub.socket, SERVICE] });
    this.#ends.push(() => client[Symbol.asyncDispose]());
    assert.deepEqual(await client.says(), { ready: true });
    return client;
  }

  async connect(): Promise<Hub> {
    const hub = await this.hub.connect();
    this.#ends.push(() => hub.close());
    return hub;
  }

  async client(options: ConnectServiceOptions = {}, name = SERVICE): Promise<ServiceClient> {
    const client = connectService(await this.connect(), name, options);
    this.#ends.push(() => client.close());
    return client;
  }

  /** A worker's facts. It must print nothing else meanwhile. */
  async facts(
    worker: Actor,
  ): Promise<{ readonly clients: number; readonly running: number; readonly waiting: number }> {
    worker.goOn("facts");
    return (await worker.says()) as { clients: number; running: number; waiting: number };
  }

  /** Waits until only the free offers of this many workers are left on the hub. */
  async onlyOffers(workers: number): Promise<void> {
    const hub = await this.connect();
    await until(`${workers} offers and nothing else`, async () => {
      const objects = await hub.list();
      return objects.length === workers && objects.every(({ leases }) => leases === 1);
    });
  }

  /** Like `onlyOffers`, with the two channels of this many links. */
  async onlyOffersAndLinks(workers: number, links: number): Promise<void> {
    const hub = await this.connect();
    await until(`${workers} offers and ${links} links`, async () => {
      const objects = await hub.list();
      const linked = objects.filter(({ leases }) => leases === 2);
      return linked.length === 2 * links && objects.length === workers + 2 * links;
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const end of this.#ends.reverse()) await end();
    await this.hub[Symbol.asyncDispose]();
  }
}

/** A worker in a process of its own; see actors/worker.ts. */
export async function startWorker(
  socket: string,
  name: string,
  options: Partial<ServeOptions> = {},
  user?: { readonly uid: number; readonly gid: number },
): Promise<Actor> {
  const args = [socket, name, JSON.stringify(options)];
  const asUser = user && { user, env: { CUDA_IPC_HUB_UID: String(HUB.uid) } };
  const worker = new Actor(WORKER, { args, ...asUser });
  try {
    assert.deepEqual(await worker.says(), { ready: true });
    return worker;
  } catch (error) {
    await worker[Symbol.asyncDispose]();
    throw error;
  }
}

/** Sends a request and holds the reply. */
export function asked(
  client: ServiceClient,
  { op = "double", id = 0, ...wait }: Ask = {},
): Promise<ServiceMessage> {
  const values = Float64Array.from({ length: 8 }, (_, i) => id + i);
  return client.request((slot) => slot.array.write(values as never), { meta: { op, id }, ...wait });
}

/** Sends a request and checks each element of the reply. */
export async function ask(client: ServiceClient, what: Ask = {}): Promise<Answer> {
  using reply = await soon("a reply", asked(client, { timeoutMs: 25_000, ...what }));
  assert.deepEqual(
    await reply.array.read(),
    Float64Array.from({ length: 8 }, (_, i) => 2 * ((what.id ?? 0) + i)),
  );
  return reply.json as unknown as Answer;
}
