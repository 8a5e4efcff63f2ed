/** A client that sends requests as told, and prints the results. */
import { connectService } from "../../../../src/doors/service.js";
import { connect } from "../../../../src/index.js";
import { argument, say, told } from "../../../support/actor-side.js";

const hub = await connect({ socket: argument(0), start: false, device: "host" });
const client = connectService(hub, argument(1));
say({ ready: true });
for (;;) {
  const { timeoutMs, ...meta } = JSON.parse(await told());
  void client
    .request((slot) => slot.array.write(new Float64Array(8).fill(1) as never), { meta, timeoutMs })
    .then(
      (reply) => {
        say(reply.json);
        reply.release();
      },
      ({ code }) => say({ code }),
    );
}
