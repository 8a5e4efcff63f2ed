/** A client of another user. Sends a request for each line, and prints the reply or the error. */
import { connectService } from "../../../../src/doors/service.js";
import { type CudaIpcError, connect } from "../../../../src/index.js";
import { argument, say, told } from "../../../support/actor-side.js";

const hub = await connect({ socket: argument(0), start: false, device: "host" });
const client = connectService(hub, argument(1), JSON.parse(argument(2)));
say({ ready: true });
for (;;) {
  const { timeoutMs, ...meta } = JSON.parse(await told());
  try {
    using reply = await client.request((slot) => slot.array.write(new Float64Array(8) as never), {
      meta,
      timeoutMs,
    });
    say(reply.json);
  } catch (error) {
    const { code, message } = error as CudaIpcError;
    say({ code, message });
  }
}
