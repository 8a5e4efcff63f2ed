/** A machine that others take for one of theirs, and whose bridge answers as a test wants. */

import { randomUUID } from "node:crypto";
import { Deadline } from "../../../src/base/deadline.js";
import type { LinkServer } from "../../../src/bridge/link/link-server.js";
import { LinkTable } from "../../../src/bridge/link/link-table.js";
import type { MachineLink } from "../../../src/bridge/link/machine-link.js";
import { NatsStore } from "../../../src/bridge/names/nats-store.js";
import { UcxContext } from "../../../src/ucx/ucx-context.js";
import type { Descriptor } from "../../../src/wire/descriptor.js";
import {
  encodeRecord,
  type MachineRecord,
  machineKey,
  nameKey,
  serviceKey,
} from "../../../src/wire/machine-records.js";
import { MACHINES_VERSION } from "../../../src/wire/machines-version.js";
import type { TestNats } from "./test-nats.js";

export type HostileAnswer = (
  link: MachineLink,
  ...call: Parameters<LinkServer["answer"]>
) => unknown;

export class HostileMachine {
  readonly name: string;
  /** The version that its records have. */
  readonly version: number;
  readonly instance = randomUUID();
  readonly store: NatsStore;
  readonly context: UcxContext;
  readonly links: LinkTable;
  answer: HostileAnswer = () => ({});
  #object = 0;

  private constructor(name: string, version: number, store: NatsStore, context: UcxContext) {
    this.name = name;
    this.version = version;
    this.store = store;
    this.context = context;
    this.links = new LinkTable({
      machine: this.name,
      instance: this.instance,
      context,
      store,
      log: () => {},
      serve: (link) => ({
        answer: async (call) => this.answer(link(), call),
        more: () => {},
        lend: () => 1,
        takeBack: () => {},
      }),
    });
  }

  /**
   * @param meet answers to the request for a link; by default as a bridge does
   * @param version of its records
   */
  static async start(
    nats: Pick<TestNats, "url">,
    name = "hostile",
    meet?: (machine: HostileMachine, request: Uint8Array) => Promise<Uint8Array>,
    version: number = MACHINES_VERSION,
  ): Promise<HostileMachine> {
    const deadline = new Deadline("connect", {}, 10_000);
    const options = { url: nats.url, bucket: "cuda-ipc" };
    const store = await NatsStore.connect(options, name, deadline, () => {});
    // Without a network there is no interface to name.
    const context = UcxContext.open(process.env.UCX_TLS === "self" ? undefined : "lo");
    const hostile = new HostileMachine(name, version, store, context);
    const instance = meet === undefined ? hostile.instance : randomUUID();
    if (meet !== undefined) store.serve(`link.${instance}`, (request) => meet(hostile, request));
    const facts = { machine: name, instance, place: "there", ucx: "1.22.0", ready: true };
    await store.create(machineKey(name), encodeRecord({ v: version, ...facts } as MachineRecord));
    return hostile;
  }

  /** Announces an object under a new name. */
  async announce(descriptor: Descriptor): Promise<string> {
    this.#object += 1;
    const name = `bait-of-${this.name}-${this.#object}`;
    const record = {
      v: this.version as typeof MACHINES_VERSION,
      name,
      machine: this.name,
      object: this.#object,
      sharedWith: "private",
      createdAtMs: 1,
      descriptor,
    } as const;
    await this.store.create(nameKey(name), encodeRecord(record));
    return name;
  }

  /** Announces workers of a service. */
  async announceService(service: string): Promise<void> {
    const machine = this.name;
    const v = this.version as typeof MACHINES_VERSION;
    await this.store.create(serviceKey(service, machine), encodeRecord({ v, service, machine }));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.links.close();
    await this.store.close();
    this.context.close();
  }
}
