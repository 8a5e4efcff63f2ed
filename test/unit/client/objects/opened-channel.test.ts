/** A client that opens channels of an honest hub and of a lying one. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { ErrorCode } from "../../../../src/base/error-codes.js";
import { hasCode } from "../../../../src/base/errors.js";
import { createBell } from "../../../../src/os/bell.js";
import { closeFds } from "../../../../src/os/foreign-fd.js";
import { createMemoryFile } from "../../../../src/os/memory-file.js";
import type { OwnedFd } from "../../../../src/os/owned-fd.js";
import { channelFdsAt } from "../../../../src/ring/channel-fds.js";
import { PAGE_BYTES } from "../../../../src/ring/channel-layout.js";
import type { ChannelRole } from "../../../../src/wire/channel-content.js";
import { ChannelClient, channelFiles } from "../../../support/channel-client.js";
import { checkLeaks } from "../../../support/leak-check.js";
import { channelOf, hostArray } from "../../../support/messages.js";
import { obliging, ScriptedHub } from "../../../support/scripted-hub.js";
import { TestFolder } from "../../../support/test-folder.js";

interface Answered {
  result: Record<string, unknown>;
  fds: OwnedFd[];
}

/** The reply of an honest hub to an open with this role. */
function truth(role: ChannelRole, all: readonly OwnedFd[]): Answered {
  const at = (indices: readonly number[]) => indices.map((index) => all[index] as OwnedFd);
  const result = { object: 7, lease: 1000, descriptor: channelOf() };
  if (role === "writer") return { result, fds: [...all] };
  if (role === "observer") return { result, fds: at([1, 3, 5]) };
  return { result: { ...result, place: 1 }, fds: at([0, 1, 2, 5, 6]) };
}

class Rig implements AsyncDisposable {
  readonly folder = new TestFolder();
  readonly all = channelFiles(channelOf().content);
  /** A file of another size, one of the size of a page, and a bell. */
  readonly odd = [
    createMemoryFile("odd", 8192),
    createMemoryFile("odd", PAGE_BYTES),
    createBell(),
  ] as const;
  answer: Answered = { result: {}, fds: [] };
  leases = 0;
  readonly scripted = new ScriptedHub(
    this.folder.socket,
    obliging({
      open: () => {
        this.leases += 1;
        return { ...this.answer, result: { ...this.answer.result, lease: 1000 + this.leases } };
      },
    }),
  );

  connect(): Promise<ChannelClient> {
    return ChannelClient.connect(this.folder.socket);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.scripted[Symbol.dispose]();
    closeFds([...this.all, ...this.odd]);
    await this.folder[Symbol.asyncDispose]();
  }
}

const roles = ["reader", "writer", "observer"] as const;

interface Lie {
  readonly what: string;
  readonly code: ErrorCode;
  readonly to?: readonly ChannelRole[];
  readonly result?: Record<string, unknown>;
  readonly fds?: (fds: OwnedFd[], odd: Rig["odd"]) => unknown;
}

const isObservers = (fds: readonly OwnedFd[]) => fds.length === 3;

const lies: readonly Lie[] = [
  { what: "a descriptor too few", code: "INVALID_DESCRIPTOR", fds: (fds) => fds.pop() },
  {
    what: "a descriptor too many",
    code: "INVALID_DESCRIPTOR",
    fds: (fds, odd) => fds.push(odd[0]),
  },
  { what: "no descriptors", code: "INVALID_DESCRIPTOR", fds: (fds) => fds.splice(0) },
  {
    what: "the descriptor of an array",
    code: "WRONG_KIND",
    result: { descriptor: hostArray },
  },
  {
    what: "a descriptor that contradicts itself",
    code: "INVALID_DESCRIPTOR",
    result: { descriptor: { ...channelOf(), byteLength: 1 } },
  },
  { what: "a seat that does not exist", code: "INVALID_MESSAGE", result: { place: 2 } },
  { what: "no seat", code: "INVALID_MESSAGE", to: ["reader"], result: { place: undefined } },
  {
    what: "a seat for another role",
    code: "INVALID_MESSAGE",
    to: ["writer", "observer"],
    result: { place: 0 },
  },
  {
    what: "a control file of another size",
    code: "INVALID_DESCRIPTOR",
    fds: (fds, odd) => fds.splice(isObservers(fds) ? 0 : channelFdsAt.control, 1, odd[0]),
  },
  {
    what: "a page of another size",
    code: "INVALID_DESCRIPTOR",
    fds: (fds, odd) => fds.splice(isObservers(fds) ? 1 : channelFdsAt.page(0), 1, odd[0]),
  },
  {
    what: "a page that is a bell",
    code: "INVALID_DESCRIPTOR",
    fds: (fds, odd) => fds.splice(isObservers(fds) ? 2 : channelFdsAt.page(0), 1, odd[2]),
  },
  {
    what: "a bell that is a page",
    code: "INVALID_DESCRIPTOR",
    to: ["reader", "writer"],
    fds: (fds, odd) => fds.splice(channelFdsAt.roomBell, 1, odd[1]),
  },
];

describe("a channel that is opened", () => {
  checkLeaks();

  for (const role of roles) {
    it(`has the files of a ${role} until it is closed`, async () => {
      await using rig = new Rig();
      await using client = await rig.connect();
      rig.answer = truth(role, rig.all);
      const channel = await client.open("c", role);
      assert.deepEqual([channel.role, channel.seat], [role, role === "reader" ? 1 : undefined]);
      const asked = await rig.scripted.heard("open");
      assert.deepEqual(
        [asked.role, asked.access],
        [role, role === "writer" ? "read-write" : "read"],
      );
      channel.close();
      channel.close();
      assert.equal((await rig.scripted.heard("release")).lease, 1001);
    });
  }

  for (const { what, code, to = roles, result, fds } of lies) {
    for (const role of to) {
      it(`is refused with ${what} as ${role}, and its lease is released`, async () => {
        await using rig = new Rig();
        await using client = await rig.connect();
        rig.answer = truth(role, rig.all);
        Object.assign(rig.answer.result, result);
        fds?.(rig.answer.fds, rig.odd);
        await assert.rejects(client.open("c", role), (error) => hasCode(error, code));
        assert.equal((await rig.scripted.heard("release")).lease, 1001);
      });
    }
  }

  it("is refused by open(), with a hint to use openChannel()", async () => {
    await using rig = new Rig();
    await using client = await rig.connect();
    rig.answer = truth("writer", rig.all);
    const opening = client.objects.open(
      "c",
      {},
      (opened) => client.objects.importArrays(opened, {}) as never,
    );
    await assert.rejects(
      opening,
      (error) => hasCode(error, "WRONG_KIND") && /use openChannel/.test(String(error)),
    );
    await rig.scripted.heard("release");
    await assert.rejects(client.open("c", "owner" as never), TypeError);
  });

  it("is restored: a writer sends all files, a reader its own, an observer none", async () => {
    await using rig = new Rig();
    await using client = await rig.connect();
    using made = await client.create("mine");
    const opened: Disposable[] = [];
    for (const role of ["observer", "reader", "writer", "reader"] as const) {
      rig.answer = truth(role, rig.all);
      opened.push(await client.open("c", role));
    }
    const back = client.reconnected();
    rig.scripted.latest.hangUp();
    assert.deepEqual(await back, { resumed: true });
    const restores = rig.scripted.latest.heard.filter(({ op }) => op === "restore");
    assert.deepEqual(
      restores.map(({ lease, fds }) => [lease, fds]),
      [
        [made.lease, 7],
        [1003, 7],
        [1001, 0],
        [1002, 5],
        [1004, 5],
      ],
    );
    for (const channel of opened) channel[Symbol.dispose]();
  });
});
