/**
 * A hole in huge pages whose pool is empty kills the process that touches it (SIGBUS). So hub and
 * client do not map such memory.
 */
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { describe, it } from "node:test";
import { hasCode } from "../../../src/base/errors.js";
import { connect } from "../../../src/client/connect.js";
import { libc } from "../../../src/ffi/libc.js";
import { OwnedFd } from "../../../src/os/owned-fd.js";
import { checkLeaks } from "../../support/leak-check.js";
import { hostArray, timelineDescriptor } from "../../support/messages.js";
import { skipUnlessRoot } from "../../support/other-user.js";
import { RawClient } from "../../support/raw-client.js";
import { obliging, type Script, ScriptedHub } from "../../support/scripted-hub.js";
import { TestFolder } from "../../support/test-folder.js";
import { TestHub } from "../../support/test-hub.js";

const COUNT = "/proc/sys/vm/nr_hugepages";
const HUGE_PAGE_BYTES = 2 * 1024 * 1024;
const MFD_ALLOW_SEALING = 2;
const MFD_HUGETLB = 4;
/** FALLOC_FL_KEEP_SIZE and FALLOC_FL_PUNCH_HOLE. */
const PUNCH_HOLE = 3;
const F_ADD_SEALS = 1033;
/** F_SEAL_SHRINK and F_SEAL_GROW. */
const SIZE_SEALS = 6;

/**
 * A sealed memory file with one huge page that the system has. Restores the number of pages at the
 * end.
 */
class HugeMemory implements Disposable {
  readonly skip: string | false;
  readonly #before: string | undefined;
  #fd: OwnedFd | undefined;

  constructor() {
    try {
      this.#before = readFileSync(COUNT, "utf8").trim();
      writeFileSync(COUNT, String(Number(this.#before) + 1));
      this.#fd = allocated();
    } catch {
      // The system does not let us set the number, or has no memory for a page.
    }
    this.skip = this.#fd === undefined && "no huge page can be had here";
  }

  get fd(): OwnedFd {
    assert.ok(this.#fd !== undefined);
    return this.#fd;
  }

  /** Punches a hole where the page was. Afterwards no page is left to fill it. */
  punch(): void {
    assert.equal(libc().fallocate(this.fd.number, PUNCH_HOLE, 0, HUGE_PAGE_BYTES), 0);
    writeFileSync(COUNT, "0");
    assert.match(readFileSync("/proc/meminfo", "utf8"), /^HugePages_Free: +0$/m);
  }

  [Symbol.dispose](): void {
    this.#fd?.close();
    if (this.#before !== undefined) writeFileSync(COUNT, this.#before);
  }
}

function allocated(): OwnedFd | undefined {
  const number = libc().memfd_create("huge", MFD_ALLOW_SEALING | MFD_HUGETLB);
  if (number < 0) return undefined;
  const fd = new OwnedFd(number);
  const isThere =
    libc().ftruncate(number, HUGE_PAGE_BYTES) === 0 &&
    libc().fallocate(number, 0, 0, HUGE_PAGE_BYTES) === 0 &&
    libc().fcntl(number, F_ADD_SEALS, SIZE_SEALS) === 0;
  if (isThere) return fd;
  fd.close();
  return undefined;
}

const isRefused = (error: unknown) =>
  hasCode(error, "INVALID_DESCRIPTOR") && /huge pages/.test(error.message);

describe("memory in huge pages into which a hole is punched", { skip: skipUnlessRoot }, () => {
  checkLeaks();

  it("is refused by the hub as a timeline, and its owner's end disturbs nobody", async (t) => {
    using huge = new HugeMemory();
    if (huge.skip !== false) return t.skip(huge.skip);
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    {
      using client = await RawClient.connect(testHub.socket);
      for (const descriptor of [timelineDescriptor, hostArray]) {
        const { error } = await client.ask(
          { op: "create", name: "steps", lifetime: "held", descriptor },
          [huge.fd],
        );
        assert.deepEqual(
          [error?.code, /huge pages/.test(error?.message ?? "")],
          ["INVALID_DESCRIPTOR", true],
        );
      }
      huge.punch();
      assert.ok((await client.ask({ op: "bye" })).ok);
    }
    using timeline = await hub.createTimeline("steps");
    using theirs = await hub.openTimeline("steps");
    timeline.signal(1n);
    assert.equal(theirs.value, 1n);
    assert.equal((await hub.status()).pid, testHub.pid);
  });

  it("is refused by a client whose hub gives it as a timeline or an array", async (t) => {
    using huge = new HugeMemory();
    if (huge.skip !== false) return t.skip(huge.skip);
    using folder = new TestFolder();
    const open: Script = ({ name }) => {
      const descriptor = name === "steps" ? timelineDescriptor : hostArray;
      return { result: { object: 7, lease: 8, descriptor }, fds: [huge.fd] };
    };
    using _scripted = new ScriptedHub(folder.socket, obliging({ open }));
    await using hub = await connect({ socket: folder.socket, start: false, device: "host" });
    await assert.rejects(hub.openTimeline("steps"), isRefused);
    await assert.rejects(hub.open("frame"), isRefused);
    huge.punch();
    await assert.rejects(hub.openTimeline("steps"), isRefused);
  });
});
