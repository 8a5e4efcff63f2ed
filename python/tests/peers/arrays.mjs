// Shares an array of each dtype, a bundle and pooled memory, and says what it reads back from Python.
import { createHash } from "node:crypto";
import { MemoryPool } from "../../../build/src/bundled/doors/interop.js";
import { heard, hub, say } from "./common.mjs";

const bytes = (length) => Uint8Array.from({ length }, (_, index) => (index * 37 + 11) % 256);
const sizes = JSON.parse(process.argv[3]);
for (const [dtype, size] of Object.entries(sizes)) {
  const array = await hub.create(`node:${dtype}`, { dtype, shape: [2, 3] });
  const raw = dtype === "bool" ? Uint8Array.of(1, 0, 1, 1, 0, 0) : bytes(6 * size);
  const { buffer, byteOffset, byteLength } = array.view();
  new Uint8Array(buffer, byteOffset, byteLength).set(raw);
  await array.publish();
}
const bundle = await hub.createBundle(
  "node:bundle",
  {
    w: { dtype: "float32", shape: [2] },
    "größe/b": { dtype: "int8", shape: [3] },
    none: { dtype: "float64", shape: [2, 0] },
  },
  { metadata: { made: "by Node" } },
);
await bundle.array("w").write(Float32Array.of(1.5, -2));
await bundle.array("größe/b").write(Int8Array.of(-1, 0, 1));
await bundle.publish();
const pool = MemoryPool.create(hub.device(), { maxBytes: 1 << 20, shared: true });
const pooled = await hub.create("node:pooled", { dtype: "int8", shape: [4], pool });
await pooled.publish();
say("ready");
for (let name = await heard(); name !== undefined; name = await heard()) {
  const array = await hub.open(name, { access: "read-write" });
  const values = await array.read();
  const raw = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
  const sha256 = createHash("sha256").update(raw).digest("hex");
  if (array.dtype === "float32") await array.fill(7);
  say({ dtype: array.dtype, shape: array.shape, sha256 });
  await array.close();
}
await hub.close();
