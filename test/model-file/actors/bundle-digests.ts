/** Opens a bundle by name and prints a digest of the bytes of each of its arrays, as JSON. */
import { createHash } from "node:crypto";
import { connect } from "../../../src/index.js";

const [name = ""] = process.argv.slice(2);
await using hub = await connect({ start: false });
using bundle = await hub.openBundle(name, { timeoutMs: 30_000 });
const digests: Record<string, string> = {};
for (const [arrayName, array] of bundle) {
  const values = await array.read();
  const bytes = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
  digests[arrayName] = createHash("sha256").update(bytes).digest("hex");
}
process.stdout.write(
  JSON.stringify({
    device: bundle.buffer.device.name,
    mechanism: bundle.buffer.mechanism,
    digests,
  }),
);
