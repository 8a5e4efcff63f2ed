/**
 * A worker of the given service. The meta of a request says what to do: "double" it, "hold" it
 * until released or aborted, be "stubborn" about an abort, "throw", or "die". It prints which
 * requests it begins and why one was aborted. After the line "lose" it fails as on a lost device.
 */

import { type ServeOptions, serve } from "../../../../src/doors/service.js";
import { CudaIpcError, connect } from "../../../../src/index.js";
import { argument, say, told } from "../../../support/actor-side.js";

const [socket, name] = [argument(0), argument(1)];
const options: Omit<ServeOptions, "request" | "reply"> = JSON.parse(argument(2));
const held: (() => void)[] = [];
let isLost = false;

const hub = await connect({ socket, start: false, device: "host" });
const message = { dtype: "float64", shape: [8] } as const;
const service = await serve(
  hub,
  name,
  { request: message, reply: message, ...options },
  async (request, reply) => {
    const { op, id = 0 } = request.json as { readonly op: string; readonly id?: number };
    if (op === "throw") throw new RangeError(`no image ${id}`);
    if (op === "die") process.kill(process.pid, "SIGKILL");
    if (op !== "double") {
      say({ began: id });
      const released = new Promise<void>((resolve) => held.push(resolve));
      const aborted = new Promise<never>((_, reject) => {
        request.signal.addEventListener("abort", () => {
          const { code, cause } = request.signal.reason as CudaIpcError;
          say({ aborted: id, code, cause: (cause as Error | undefined)?.message });
          if (op === "hold") reject(request.signal.reason);
        });
      });
      await Promise.race([released, aborted]);
    }
    if (isLost) throw new CudaIpcError("DEVICE_LOST", "Cannot copy 64 bytes: the context is lost");
    const values = await request.array.read();
    await (await reply.loan()).array.write(values.map((value) => 2 * value));
    return { meta: { pid: process.pid, id } };
  },
);
say({ ready: true });
for (;;) {
  const line = await told();
  if (line === "lose") isLost = true;
  else if (line === "release") for (const release of held.splice(0)) release();
  else if (line === "facts")
    say({ clients: service.clients, running: service.running, waiting: service.waiting });
  else if (line.startsWith("close")) {
    void service.close({ timeoutMs: Number(line.slice(6) || 30_000) }).then(async () => {
      say({ closed: true });
      await hub.close();
    });
  }
}
