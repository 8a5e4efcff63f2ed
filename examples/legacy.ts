/**
 * System S4: a handle of CUDA's oldest mechanism goes through a file. The consumer starts first and
 * waits for the file. It counts wrong elements on the device.
 *
 *   npx cuda-ipc demo legacy   with the package installed
 *   node examples/legacy.ts    in a clone after `npm install`, with Node 24 or newer
 *   --elements 1024 --device cuda:0
 *
 * The output (the numbers are processes):
 *   4712  waits for the producer's handle
 *   4711  wrote float32[1024] and its handle to handle.json
 *   4712  opened it; wrong elements: 0
 *   4712  the first 5: 42.0000, 42.0010, 42.0020, 42.0030, 42.0040
 *   4712  closed it
 *   4711  got the consumer's acknowledgement: every element verified
 */
import { join } from "node:path";
import { CudaIpcError, DeviceArray } from "cuda-ipc";
import { IpcArrayHandle } from "cuda-ipc/interop";
import { openShared, readHandleFile, writeHandleFile } from "cuda-ipc/peer";
import { Child, tellParent } from "./child.ts";
import { LIMIT, type Options, openDevice, orSkip, run, say, temporaryFolder } from "./program.ts";

await run({ elements: 1024 }, (options) =>
  options.role === "consumer" ? consumer(options) : producer(options),
);

function content({ elements }: Options): Float32Array {
  return Float32Array.from({ length: elements }, (_, i) => 42 + i * 0.001);
}

async function producer(options: Options): Promise<void> {
  const path = join(temporaryFolder(), "handle.json");
  using device = openDevice(options);
  using array = DeviceArray.allocate(device, {
    dtype: "float32",
    shape: [options.elements],
    mechanism: "legacy",
  });
  const handle = orSkip(() => IpcArrayHandle.of(array));
  using other = new Child(import.meta.url, "consumer", options, { args: [path] });
  await other.hear();

  await array.write(content(options));
  // The file appears whole or not at all, and only this user can read it.
  await writeHandleFile(path, handle.toJSON());
  say(`wrote float32[${options.elements}] and its handle to handle.json`);
  // The handle keeps nothing alive, so keep the array open until the consumer is done.
  await other.hear();
  await other.finished();
  say("got the consumer's acknowledgement: every element verified");
}

async function consumer(options: Options): Promise<void> {
  const [path = ""] = options.args;
  using device = openDevice(options);
  say("waits for the producer's handle");
  tellParent("waiting");
  // Waits for the file. If the process of the handle has ended, this throws PEER_GONE.
  const document = await readHandleFile(path, LIMIT);
  {
    using array = (await openShared(document, { device, ...LIMIT })).expectDType("float32");
    using expected = DeviceArray.allocate(device, { dtype: "float32", shape: array.shape });
    await expected.write(content(options));
    const { differences, first } = await array.compare(expected, LIMIT);
    say(`opened it; wrong elements: ${differences}`);
    if (differences > 0) {
      throw new CudaIpcError(
        "VERIFICATION_FAILED",
        `${differences} elements differ, the first is element ${first}`,
      );
    }
    const values = await array.slice({ stop: 5 }).read();
    say(`the first ${values.length}: ${[...values].map((value) => value.toFixed(4)).join(", ")}`);
  }
  say("closed it");
  tellParent("done");
}
