/** What loading UCX must leave alone. ALONE: libucp changes the process that loads it. */
import assert from "node:assert/strict";
import { it } from "node:test";
import koffi from "koffi";
import { UcxContext } from "../../../src/ucx/ucx-context.js";
import { skipWithoutUcx } from "../../support/machines/engines.js";

const [PROT_NONE, MAP_PRIVATE, MAP_ANONYMOUS, MAP_FIXED_NOREPLACE] = [0, 0x02, 0x20, 0x100000];
const PAGE = 4096n;

it("keeps the heap whole that cannot grow", { skip: skipWithoutUcx() }, () => {
  const libc = koffi.load("libc.so.6");
  const sbrk = libc.func("intptr_t sbrk(intptr_t increment)");
  const mmap = libc.func(
    "intptr_t mmap(intptr_t addr, size_t length, int prot, int flags, int fd, int64_t offset)",
  );
  const end = BigInt(sbrk(0));
  const behind = ((end + PAGE - 1n) / PAGE) * PAGE;
  const flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
  mmap(behind, PAGE, PROT_NONE, flags, -1, 0);
  assert.equal(BigInt(sbrk(Number(PAGE))), -1n, "something lies behind the heap");

  UcxContext.open().close();

  assert.equal(BigInt(sbrk(0)), end);
});
