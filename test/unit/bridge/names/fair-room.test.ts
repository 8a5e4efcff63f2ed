/** Which names are announced if the users of a hub want more than other bridges keep. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Announced } from "../../../../src/bridge/local-names.js";
import { Announcer } from "../../../../src/bridge/names/announcer.js";
import { Directory } from "../../../../src/bridge/names/directory.js";
import { FairRoom } from "../../../../src/bridge/names/fair-room.js";
import { ServiceAnnouncer } from "../../../../src/bridge/names/service-announcer.js";
import { MACHINES_VERSION } from "../../../../src/wire/machines-version.js";
import { MemoryNames } from "../../../support/machines/memory-names.js";
import { hostArray } from "../../../support/messages.js";

const MACHINE = "one";
const [ALICE, BOB, CAROL] = [1001, 1002, 1003];

type OfUsers = Readonly<Record<number, readonly string[]>>;

function announced(names: OfUsers, services: OfUsers = {}): Announced {
  const owners = (all: OfUsers) =>
    new Map(Object.entries(all).flatMap(([uid, mine]) => mine.map((it) => [it, Number(uid)])));
  const nameOwners = owners(names);
  const fields = { sharedWith: "all", createdAtMs: 1, descriptor: hostArray } as const;
  const records = [...nameOwners.keys()].map((name, index) => {
    const object = index + 1;
    return [name, { v: MACHINES_VERSION, name, machine: MACHINE, object, ...fields }] as const;
  });
  return { names: new Map(records), nameOwners, services: owners(services) };
}

async function bridgeWith(room: number) {
  const names = new MemoryNames();
  const store = names.connect();
  const log: string[] = [];
  const say = (line: string) => log.push(line);
  const directory = new Directory(MACHINE, say);
  await store.watch(directory);
  const fairRoom = new FairRoom(MACHINE, directory, say, room);
  const announcer = new Announcer(MACHINE, store, directory, say);
  const serviceAnnouncer = new ServiceAnnouncer(MACHINE, store, directory, say);
  /** As a bridge does. Returns what NATS has then. */
  const announce = async (wanted: Announced) => {
    const fitting = fairRoom.fit(wanted);
    assert.equal(await announcer.announce(fitting.names), true);
    assert.equal(await serviceAnnouncer.announce(fitting.services), true);
    const written = directory.entries().map(({ record }) => record.name);
    const offered = directory.services().map(({ record }) => record.service);
    return [...written.sort(), ...offered.sort()];
  };
  const words =
    /^not announced: (\d+) of the names of user (\d+), because others keep \d+ of one machine,/;
  /** By user, how many the log says are left out. */
  const told = () =>
    log.flatMap((line) => {
      const [, count, uid] = words.exec(line) ?? [];
      return uid === undefined ? [] : [[Number(uid), Number(count)] as const];
    });
  return { announce, announcer, told };
}

describe("the room of a machine's names", () => {
  it("is shared equally by the users who want more, and never taken by one of them", async () => {
    const { announce, announcer, told } = await bridgeWith(6);
    const many = ["a1", "a2", "a3", "a4", "a5", "a6", "a7", "a8"];
    assert.deepEqual(await announce(announced({ [ALICE]: many })), many.slice(0, 6));
    // Others come later, and have room all the same.
    const others = { [BOB]: ["b1"], [CAROL]: ["c1", "c2", "c3", "c4"] };
    const found = await announce(announced({ [ALICE]: many, ...others }));
    assert.deepEqual(found, ["a1", "a2", "a3", "b1", "c1", "c2"]);
    assert.equal(announcer.offered("a4"), undefined);
    assert.deepEqual(told(), [
      [ALICE, 2],
      [CAROL, 2],
      [ALICE, 5],
    ]);
  });

  it("is for services, too", async () => {
    const { announce } = await bridgeWith(4);
    const services = { [ALICE]: ["s1", "s2", "s3", "s4", "s5"] };
    assert.deepEqual(await announce(announced({}, services)), ["s1", "s2", "s3", "s4"]);
    const found = await announce(announced({ [ALICE]: ["a1"], [BOB]: ["b1", "b2"] }, services));
    assert.deepEqual(found, ["b1", "b2", "s1", "s2"]);
  });

  it("is kept by what was announced before, until it ends", async () => {
    const { announce, told } = await bridgeWith(3);
    await announce(announced({ [ALICE]: ["b", "c"] }));
    const more = announced({ [ALICE]: ["a", "b", "c", "d", "e"] });
    assert.deepEqual(await announce(more), ["a", "b", "c"]);
    assert.deepEqual(await announce(more), ["a", "b", "c"]);
    assert.equal(told().length, 1);
    assert.deepEqual(await announce(announced({ [ALICE]: ["b", "d", "e"] })), ["b", "d", "e"]);
    assert.deepEqual(await announce(announced({})), []);
  });
});
