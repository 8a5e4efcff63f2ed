import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Mirror } from "../../../../src/bridge/names/mirror.js";
import {
  encodeRecord,
  machineKey,
  nameKey,
  serviceKey,
} from "../../../../src/wire/machine-records.js";
import { MACHINES_VERSION } from "../../../../src/wire/machines-version.js";
import { hostArray } from "../../../support/messages.js";

const max = { knownMachinesMax: 2, namesPerMachineMax: 3, knownNamesMax: 5 };

function limited() {
  const mirror = new Mirror("own", max);
  let revision = 0;
  const apply = (key: string, value: Uint8Array | undefined) => {
    revision += 1;
    mirror.apply({ key, revision, value });
  };
  const name = (given: string, machine: string) =>
    apply(
      nameKey(given),
      encodeRecord({
        v: MACHINES_VERSION,
        name: given,
        machine,
        object: 5,
        sharedWith: "private",
        createdAtMs: 1,
        descriptor: hostArray,
      }),
    );
  const service = (given: string, machine: string) =>
    apply(
      serviceKey(given, machine),
      encodeRecord({ v: MACHINES_VERSION, service: given, machine }),
    );
  const greet = (machine: string) =>
    apply(
      machineKey(machine),
      encodeRecord({
        v: MACHINES_VERSION,
        machine,
        instance: "01234567-89ab-4def-8123-456789abcdef",
        place: "here",
        ucx: "1.22.0",
        ready: true,
      }),
    );
  return { mirror, name, service, greet, remove: (key: string) => apply(key, undefined) };
}

describe("Mirror", () => {
  it("limits names and services of one machine together", () => {
    const { mirror, name, service, remove } = limited();
    name("a", "one");
    name("b", "one");
    service("s", "one");
    const found = /machine "one" has 3 names, the limit \(namesPerMachineMax\)/;
    assert.throws(() => name("c", "one"), { code: "LIMIT_EXCEEDED", message: found });
    assert.throws(() => service("t", "one"), { code: "LIMIT_EXCEEDED", message: found });
    // A name that is there may change.
    name("a", "one");
    remove(nameKey("b"));
    name("c", "one");
    remove(serviceKey("s", "one"));
    name("d", "one");
    assert.deepEqual([...mirror.names.keys()], ["a", "c", "d"]);
  });

  it("counts a name that another machine takes over for that one", () => {
    const { name } = limited();
    for (const given of ["a", "b", "c"]) name(given, "one");
    name("a", "two");
    name("d", "one");
    name("e", "two");
    assert.throws(() => name("f", "one"), { message: /machine "one" has 3 names/ });
  });

  it("limits names of all machines together, but keeps those of its own machine", () => {
    const { mirror, name } = limited();
    for (const given of ["a", "b", "c"]) name(given, "one");
    for (const given of ["d", "e"]) name(given, "two");
    assert.throws(() => name("f", "two"), {
      code: "LIMIT_EXCEEDED",
      message: "Cannot keep name.f of NATS: all machines have 5 names, the limit (knownNamesMax)",
    });
    name("g", "own");
    assert.equal(mirror.names.size, 6);
  });

  it("limits machines, but keeps its own", () => {
    const { mirror, greet, remove } = limited();
    greet("one");
    greet("two");
    assert.throws(() => greet("three"), { message: /2 are known, .* \(knownMachinesMax\)/ });
    greet("one");
    greet("own");
    remove(machineKey("one"));
    remove(machineKey("two"));
    greet("three");
    assert.deepEqual([...mirror.machines.keys()], ["own", "three"]);
  });
});
