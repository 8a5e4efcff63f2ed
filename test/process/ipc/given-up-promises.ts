/**
 * Importers refuse objects that their exporter freed or closed, on any kind of device. The calling
 * suite opens the device.
 */
import assert from "node:assert/strict";
import { it, type TestContext } from "node:test";
import type { ErrorCode } from "../../../src/base/error-codes.js";
import { hasCode } from "../../../src/base/errors.js";
import {
  type ArrayHandleDocument,
  Event,
  type EventDescriptor,
  IpcArrayHandle,
} from "../../../src/doors/interop.js";
import type { Device } from "../../../src/index.js";
import { Actor } from "../../support/actor.js";
import { soon } from "../../support/until.js";

const SHARES = new URL("./actors/shares-array.js", import.meta.url);
const RECORDS = new URL("./actors/records-event.js", import.meta.url);

interface Shared {
  readonly whole: ArrayHandleDocument;
}

export interface GivenUpSubject {
  readonly name: string;
  readonly device: () => Device;
  /** Extra environment of the other processes. */
  readonly env?: Readonly<Record<string, string>>;
}

function refused(code: ErrorCode, attempt: () => unknown): void {
  assert.throws(attempt, (error) => {
    assert.ok(hasCode(error, code), `wanted ${code}: ${String(error)}`);
    return true;
  });
}

/** Reported because some drivers repeat handles. On such a GPU only the mark reveals an old one. */
function tellHandles(
  t: TestContext,
  later: { readonly handle: string },
  earlier: { readonly handle: string },
): void {
  t.diagnostic(
    `what came after it has ${later.handle === earlier.handle ? "the same" : "another"} handle`,
  );
}

export function givenUpPromises({ name, device, env = {} }: GivenUpSubject): void {
  const open = (json: unknown) => IpcArrayHandle.from(json).open(device());
  const start = (file: URL) => new Actor(file, { args: [name], env });

  it("refuses a freed array if nothing newer was seen, and opens its successor", async (t) => {
    await using actor = start(SHARES);
    const { whole } = (await actor.says()) as Shared;
    actor.goOn();
    const later = (await actor.says()) as Shared;
    tellHandles(t, later.whole, whole);
    refused("STALE_HANDLE", () => open(whole));
    using array = open(later.whole);
    assert.equal((await array.read())[0], 100);
    refused("STALE_HANDLE", () => open(whole));
  });

  it("refuses an array whose device was closed while its process lives on", async () => {
    await using actor = start(SHARES);
    await actor.says();
    actor.goOn();
    const { whole } = (await actor.says()) as Shared;
    for (let step = 0; step < 2; step += 1) {
      actor.goOn();
      await actor.says();
    }
    refused("STALE_HANDLE", () => open(whole));
  });

  it("refuses a closed event if nothing newer was seen, and opens its successor", async (t) => {
    await using actor = start(RECORDS);
    await actor.says();
    actor.goOn();
    const first = (await actor.says()) as EventDescriptor;
    using event = Event.import(device(), first);
    actor.goOn();
    await actor.says();
    await soon("the event is done", event.synchronize());
    actor.goOn();
    const second = (await actor.says()) as EventDescriptor;
    tellHandles(t, second, first);
    refused("STALE_HANDLE", () => Event.import(device(), first));
    using stream = device().createStream();
    refused("STALE_HANDLE", () => event.done);
    refused("STALE_HANDLE", () => stream.wait(event));
    refused("STALE_HANDLE", () => event.announce(second));
    await assert.rejects(event.synchronize(), { code: "STALE_HANDLE" });
    using newer = Event.import(device(), second);
    await soon("the next event is done", newer.synchronize());
    refused("STALE_HANDLE", () => newer.announce(first));
  });
}
