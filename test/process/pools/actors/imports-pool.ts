// Imports the pool at descriptor 3. Arguments: the pool's descriptor, and descriptors of buffers.
// It imports each buffer on command, twice, so the first can be closed while the second is in use,
// and says the result.
import { CudaIpcError } from "../../../../src/base/errors.js";
import { Device } from "../../../../src/gpu/device.js";
import { MemoryPool } from "../../../../src/gpu/memory/memory-pool.js";
import { OwnedFd } from "../../../../src/os/owned-fd.js";
import { argument, say, told } from "../../../support/actor-side.js";

using device = Device.open();
const fd = new OwnedFd(3);
using pool = MemoryPool.import(device, fd, JSON.parse(argument(0)));
fd.close();
say({ imported: pool.imported, maxBytes: pool.maxBytes });

for (let i = 1; i + 2 < process.argv.length; i += 1) {
  await told();
  try {
    const descriptor = JSON.parse(argument(i));
    const first = pool.importArray(descriptor, {
      dtype: "float32",
      shape: [descriptor.byteLength / 4],
    });
    using second = pool.importArray(descriptor, {
      dtype: "float32",
      shape: [descriptor.byteLength / 4],
    });
    const same = first.buffer.pointer === second.buffer.pointer;
    first.close();
    const values = await second.read();
    await second.write(values.map((_, i) => -i));
    say({
      same,
      sum: values.reduce((sum, value) => sum + value, 0),
      used: pool.statistics().usedBytes > 0,
    });
  } catch (error) {
    say({ code: error instanceof CudaIpcError ? error.code : String(error) });
  }
}
say({ used: pool.statistics().usedBytes > 0 });
