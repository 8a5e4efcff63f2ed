import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { it } from "node:test";
import { fileURLToPath } from "node:url";
import type { Subject } from "./describe-conformance.js";

const ACTOR = fileURLToPath(new URL("./actors/answer.js", import.meta.url));
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

    const actor = spawn(process.execPath, [ACTOR, rig().kind, String(byteLength), String(COUNT)], {
      stdio: ["ignore", "ignore", "pipe", fd.number, words.fd.number],
      timeout: 60_000,
    });
    let complaint = "";
    actor.stderr?.setEncoding("utf8").on("data", (text: string) => {
      complaint += text;
    });
    const status = await new Promise((resolve) =>
      actor.on("close", (code, signal) => resolve(signal ?? code)),
    );
    assert.equal(status, 0, complaint);
    await rig().done(stream);
    assert.equal(
      integers.findIndex((value, i) => value !== -i),
      -1,
    );
  });
}
