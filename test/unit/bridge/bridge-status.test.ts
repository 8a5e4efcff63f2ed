import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { limits } from "../../../src/base/limits.js";
import { type BridgeFacts, statusOf } from "../../../src/bridge/bridge-status.js";
import { Directory } from "../../../src/bridge/names/directory.js";
import { type BridgeStatus, statusReplySchema } from "../../../src/wire/bridge-messages.js";
import { checked } from "../../../src/wire/codec.js";
import {
  encodeRecord,
  machineKey,
  nameKey,
  serviceKey,
} from "../../../src/wire/machine-records.js";
import { MACHINES_VERSION } from "../../../src/wire/machines-version.js";
import { hostArray } from "../../support/messages.js";

const OWN = "own";
const idle: BridgeFacts = {
  machine: OWN,
  namesAwayMs: null,
  ucx: "1.22.0",
  transports: ["tcp/lo"],
  fetches: [],
  refused: [],
  carried: [],
  serving: [],
  workers: { countOf: () => 0 },
};

/** What NATS says of some machines. */
class Known {
  readonly directory = new Directory(OWN, assert.fail);
  #revision = 0;

  constructor() {
    this.directory.onRestart();
    this.directory.onCurrent();
  }

  machine(machine: string): void {
    const instance = "01234567-89ab-4def-8123-456789abcdef";
    const record = {
      v: MACHINES_VERSION,
      machine,
      instance,
      place: "x",
      ucx: "1.22.0",
      ready: true,
    } as const;
    this.#add(machineKey(machine), encodeRecord(record));
  }

  name(name: string, machine: string): void {
    const facts = { object: 5, sharedWith: "private", createdAtMs: 1 } as const;
    const record = { v: MACHINES_VERSION, name, machine, ...facts, descriptor: hostArray } as const;
    this.#add(nameKey(name), encodeRecord(record));
  }

  service(service: string, machine: string): void {
    this.#add(
      serviceKey(service, machine),
      encodeRecord({ v: MACHINES_VERSION, service, machine }),
    );
  }

  #add(key: string, value: Uint8Array): void {
    this.#revision += 1;
    this.directory.onEntry({ key, revision: this.#revision, value });
  }
}

/** A name of the greatest length. */
const longName = (at: number) => `n${at}`.padEnd(limits.nameBytesMax, "-");

/** What crosses to and from other machines, `count` of each. */
function busy(count: number): BridgeFacts {
  const each = <T>(make: (at: number) => T) => Array.from({ length: count }, (_, at) => make(at));
  const record = (at: number) => ({ name: longName(at), machine: longName(at) });
  return {
    ...idle,
    ucx: longName(0),
    transports: each(longName),
    fetches: each((at) => ({
      record: record(at),
      doneBytes: 2 ** 50,
      totalBytes: 2 ** 50,
      bytesPerSecond: 2 ** 50,
    })) as never,
    refused: each(record),
    carried: each((at) => ({ record: record(at), messages: 2 ** 50 })) as never,
  };
}

describe("statusOf", () => {
  it("lists services by name and machine, with the workers in use on either side", () => {
    const known = new Known();
    for (const [service, machine] of [
      ["double", "two"],
      ["square", OWN],
      ["double", OWN],
    ] as const)
      known.service(service, machine);
    const { services } = statusOf(
      {
        ...idle,
        workers: {
          countOf: (service, machine) => (`${service} ${machine}` === "double two" ? 3 : 0),
        },
        serving: [
          { carried: [], claimed: ["double", "square"] },
          { carried: [], claimed: ["double"] },
        ],
      },
      known.directory,
      undefined,
    );
    assert.deepEqual(services, [
      { service: "double", machine: OWN, workersUsed: 2 },
      { service: "double", machine: "two", workersUsed: 3 },
      { service: "square", machine: OWN, workersUsed: 1 },
    ]);
  });

  it("lists channels of both directions, with their messages", () => {
    const carried = [{ record: { name: "b", machine: "two" }, messages: 7 }] as never;
    const going = { name: "a", direction: "out", machine: "three", messages: 9 } as const;
    const serving = [{ carried: [going], claimed: [] }];
    const { channels } = statusOf({ ...idle, carried, serving }, new Known().directory, undefined);
    assert.deepEqual(channels, [
      going,
      { name: "b", direction: "in", machine: "two", messages: 7 },
    ]);
  });

  it("is of its form also if another machine numbers messages up to the end", () => {
    const messages = Number.MAX_SAFE_INTEGER + 1;
    const carried = [{ record: { name: "b", machine: "two" }, messages }] as never;
    const going = { name: "a", direction: "out", machine: "three", messages } as const;
    const serving = [{ carried: [going], claimed: [] }];
    const status = statusOf({ ...idle, carried, serving }, new Known().directory, undefined);
    const { channels } = checked("a status", statusReplySchema, status) as BridgeStatus;
    assert.equal(channels.length, 2);
  });

  it("counts what is left out of a long list", () => {
    const known = new Known();
    for (let at = 0; at < 20; at += 1) known.service(`service-${at}`, OWN);
    const status = statusOf(busy(20), known.directory, undefined);
    assert.deepEqual([status.services.length, status.servicesLeftOut], [16, 4]);
    assert.deepEqual([status.channels.length, status.channelsLeftOut], [16, 4]);
  });

  it("gives each name once, in pages that fit into a message whatever is in the lists", () => {
    const known = new Known();
    const count = 1000;
    for (let at = 0; at < count; at += 1) known.name(longName(at), longName(at % 20));
    for (let at = 0; at < 20; at += 1) {
      known.machine(longName(at));
      known.service(longName(at), longName(at));
    }
    for (const facts of [idle, busy(20)]) {
      const found: string[] = [];
      let after: string | undefined;
      do {
        const page: BridgeStatus = statusOf(facts, known.directory, after);
        const bytes = JSON.stringify(page).length;
        assert.ok(bytes <= limits.messageBytesMax, `${bytes} bytes`);
        checked("a status", statusReplySchema, page);
        assert.ok(page.names.length > 0);
        found.push(...page.names.map(({ name }) => name));
        after = page.next ?? undefined;
      } while (after !== undefined);
      assert.equal(new Set(found).size, count);
      assert.equal(found.length, count);
    }
  });
});
