// Sends TCP sockets whose close blocks, and closes its own copies, so that the hub has the last
// copies. Arguments: hub socket, moment.
import { hasCode } from "../../../../src/base/errors.js";
import { SeqpacketSocket } from "../../../../src/os/seqpacket.js";
import { argument, say, told } from "../../../support/actor-side.js";
import { hostArray } from "../../../support/messages.js";
import { RawClient } from "../../../support/raw-client.js";
import { LingeringSockets } from "../../../support/waiting-fds.js";

const COUNT = 8;

const lingering = await LingeringSockets.open();
const moment = argument(1);
const create = { op: "create", name: "waits", lifetime: "held", descriptor: hostArray };
let refused = 0;
const kept: SeqpacketSocket[] = [];
for (let count = 0; count < COUNT; count += 1) {
  const fd = lingering.make();
  try {
    if (moment === "hello") {
      const socket = SeqpacketSocket.connect(argument(0));
      kept.push(socket);
      socket.trySend(
        Buffer.from('{"v":1,"id":1,"op":"hello","client":{"version":"0","program":"x"}}'),
        [fd],
      );
    } else {
      const client = await RawClient.connect(argument(0));
      kept.push(client.socket);
      if (moment === "unread") client.send({ op: "bye" });
      client.send(create, [fd]);
    }
  } catch (error) {
    // The kernel refuses them before the hub knows the sender, and after it has hung up.
    if (!hasCode(error, "PERMISSION_DENIED") && !hasCode(error, "PEER_GONE")) throw error;
    refused += 1;
    continue;
  }
  fd.close();
}
say({ sent: COUNT - refused, refused });
await told();
