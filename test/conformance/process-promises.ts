import assert from "node:assert/strict";
import { it } from "node:test";
import type { Subject } from "./describe-conformance.js";
import { runActor } from "./run-actor.js";

const COUNT = 262_144;

export function processPromises({ rig }: Subject): void {
  it("shares memory and order with another process through two descriptors", async () => {
    const { driver } = rig();
    const { pointer, memory, byteLength } = rig().buffer(4 * COUNT);
    const words = rig().words();
    const fd = rig().exported(memory);
    const staging = rig().staging(4 * COUNT);
    const integers = new Int32Array(staging.bytes.buffer, staging.bytes.byteOffset, COUNT);
    for (let i = 0; i < COUNT; i += 1) integers[i] = (i * 2 + 1337) ^ 0xdeadbeef;

    const stream = rig().stream();
    driver.copyToDevice(stream, pointer, staging.address, 4 * COUNT);
    driver.writeWord(stream, words.pointer, 1n);
    rig().wait(stream, words, 1, 1n);
    driver.copyToHost(stream, staging.address, pointer, 4 * COUNT);

    const args = [rig().kind, String(byteLength), String(COUNT)];
    await runActor("answer", args, [fd.number, words.fd.number]);
    await rig().done(stream);
    assert.equal(
      integers.findIndex((value, i) => value !== -i),
      -1,
    );
  });
}
