/**
 * Which names and services of this machine are announced if there are more than other bridges keep
 * of one machine. The users of a hub share the room equally, so no user takes that of another one.
 */
import { limits } from "../../base/limits.js";
import type { NameRecord } from "../../wire/machine-records.js";
import type { Announced } from "../local-names.js";
import type { Directory } from "./directory.js";

interface Fitting {
  readonly names: ReadonlyMap<string, NameRecord>;
  readonly services: ReadonlySet<string>;
}

interface Thing {
  readonly kind: "name" | "service";
  readonly name: string;
}

export class FairRoom {
  readonly #machine: string;
  readonly #directory: Pick<Directory, "entry" | "hasService">;
  readonly #room: number;
  readonly #log: (line: string) => void;
  /** By user, what the log says. */
  #leftOut = new Map<number, number>();

  constructor(
    machine: string,
    directory: Pick<Directory, "entry" | "hasService">,
    log: (line: string) => void,
    room: number = limits.namesPerMachineMax,
  ) {
    this.#machine = machine;
    this.#directory = directory;
    this.#log = log;
    this.#room = room;
  }

  fit({ names, nameOwners, services }: Announced): Fitting {
    if (names.size + services.size <= this.#room) {
      this.#leftOut.clear();
      return { names, services: new Set(services.keys()) };
    }
    const things = thingsOfUsers(nameOwners, services);
    const kept = { name: new Set<string>(), service: new Set<string>() };
    const leftOut = new Map<number, number>();
    for (const [uid, count] of sharesOf(things, this.#room)) {
      const all = things.get(uid) ?? [];
      for (const { kind, name } of this.#writtenFirst(all).slice(0, count)) kept[kind].add(name);
      if (count < all.length) leftOut.set(uid, all.length - count);
    }
    this.#say(leftOut);
    const fitting = [...names].filter(([name]) => kept.name.has(name));
    return { names: new Map(fitting), services: kept.service };
  }

  /** WHY: what other machines use is not taken away while it fits. */
  #writtenFirst(things: readonly Thing[]): readonly Thing[] {
    const isWritten = ({ kind, name }: Thing) =>
      kind === "name"
        ? this.#directory.entry(name)?.record.machine === this.#machine
        : this.#directory.hasService(name, this.#machine);
    return [...things.filter(isWritten), ...things.filter((it) => !isWritten(it))];
  }

  #say(leftOut: Map<number, number>): void {
    for (const [uid, count] of leftOut)
      if (this.#leftOut.get(uid) !== count) {
        const why = `others keep ${this.#room} of one machine, which its users share`;
        this.#log(`not announced: ${count} of the names of user ${uid}, because ${why}`);
      }
    this.#leftOut = leftOut;
  }
}

function thingsOfUsers(
  names: ReadonlyMap<string, number>,
  services: ReadonlyMap<string, number>,
): ReadonlyMap<number, readonly Thing[]> {
  const things = new Map<number, Thing[]>();
  const add = (kind: Thing["kind"], owners: ReadonlyMap<string, number>) => {
    for (const [name, uid] of owners) {
      const ofUser = things.get(uid);
      if (ofUser === undefined) things.set(uid, [{ kind, name }]);
      else ofUser.push({ kind, name });
    }
  };
  // A service stands for many workers.
  add("service", services);
  add("name", names);
  return things;
}

/** How many each user may have: all, or an equal share of what the users with less have left. */
function sharesOf(
  things: ReadonlyMap<number, readonly Thing[]>,
  room: number,
): readonly (readonly [uid: number, count: number])[] {
  const users = [...things].sort(
    ([uid, one], [otherUid, other]) => one.length - other.length || uid - otherUid,
  );
  let left = room;
  return users.map(([uid, { length }], index) => {
    const count = Math.min(length, Math.floor(left / (users.length - index)));
    left -= count;
    return [uid, count] as const;
  });
}
