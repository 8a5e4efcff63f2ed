import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { FrameSeal } from "../../../../src/bridge/link/frame-seal.js";
import { addressOf } from "../../../../src/os/host-memory.js";

const secrets = [new Uint8Array(32).fill(1), new Uint8Array(32).fill(2)] as const;
const asked = () => new FrameSeal(secrets, "asked").bytes;
const answered = () => new FrameSeal(secrets, "answered").bytes;

describe("BytesSeal", () => {
  const bytes = new Uint8Array(new ArrayBuffer(1000)).fill(7);
  const address = addressOf(bytes);

  it("knows the bytes that the other side sealed, and no others", async () => {
    const seal = await asked().seal(address, 1000);
    assert.ok(await answered().isOf(seal, address, 1000));
    assert.equal(await answered().isOf(seal, address, 999), false);
    bytes[500] = 8;
    assert.equal(await answered().isOf(seal, address, 1000), false);
    bytes[500] = 7;
    assert.equal(await answered().isOf({ ...seal, nonce: seal.nonce + 1 }, address, 1000), false);
  });

  it("does not take a seal of its own side, or of another link", async () => {
    const seal = await asked().seal(address, 1000);
    assert.equal(await asked().isOf(seal, address, 1000), false);
    const [one, other] = secrets;
    const elsewhere = new FrameSeal([other, one], "answered").bytes;
    assert.equal(await elsewhere.isOf(seal, address, 1000), false);
  });

  it("uses no nonce twice", async () => {
    const side = asked();
    const seals = await Promise.all([1, 2, 3].map(() => side.seal(address, 1000)));
    assert.equal(new Set(seals.map(({ nonce }) => nonce)).size, 3);
    assert.equal(new Set(seals.map(({ mac }) => mac)).size, 3);
  });
});
