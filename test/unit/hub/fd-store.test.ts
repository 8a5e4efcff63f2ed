import assert from "node:assert/strict";
import { constants } from "node:os";
import { describe, it } from "node:test";
import { interceptLibc } from "../../../src/ffi/intercept-libc.js";
import { FdStore } from "../../../src/hub/fd-store.js";
import { createMemoryFile } from "../../../src/os/memory-file.js";
import type { OwnedFd } from "../../../src/os/owned-fd.js";
import { checkLeaks } from "../../support/leak-check.js";

/** What a manager that takes everything was told. */
class Told {
  readonly words: string[] = [];
  latest: OwnedFd | undefined;
  store(name: string, [fd]: readonly OwnedFd[]): boolean {
    this.words.push(`store ${name}`);
    this.latest = fd;
    return true;
  }
  remove(name: string): boolean {
    this.words.push(`remove ${name}`);
    return true;
  }
}

describe("FdStore", () => {
  checkLeaks();

  it("does without an object of which it cannot make a twin, and says so", () => {
    const told = new Told();
    const lines: string[] = [];
    const store = new FdStore(told, (line) => lines.push(line));
    using memory = createMemoryFile("test", 4096);
    using twin = memory.duplicate();
    store.store(1, [memory]);
    const giveBack = interceptLibc((call) => (call === "open" ? constants.errno.EMFILE : undefined));
    try {
      store.store(2, [twin]);
    } finally {
      giveBack();
    }
    assert.match(lines.join("\n"), /^the service manager does not keep object 2: TOO_MANY_FDS: /);
    store.store(3, [twin]);
    assert.notEqual(told.latest, twin);
    store.remove(1);
    store.remove(2);
    store.remove(3);
    assert.deepEqual(told.words, ["store o1.0", "store o3.0", "remove o1.0", "remove o3.0"]);
    store.store(4, [twin]);
    assert.equal(told.latest, twin, "no other object has the file any more");
    store.close();
  });
});
