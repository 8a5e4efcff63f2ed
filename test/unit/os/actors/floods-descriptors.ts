// Has more descriptors in flight than its limit of open files, sends another one over a channel,
// and receives the others when it is told to. Run it with a low limit, as a user that is not root.
import { hasCode } from "../../../../src/base/errors.js";
import { createBell } from "../../../../src/os/bell.js";
import { PacketChannel } from "../../../../src/os/packet-channel.js";
import { SeqpacketSocket } from "../../../../src/os/seqpacket.js";
import { isInFlightLimit } from "../../../../src/os/socket-message.js";
import { say, told } from "../../../support/actor-side.js";
import { until } from "../../../support/until.js";

const [flooding, unread] = SeqpacketSocket.pair();
using bell = createBell();
/** As many as one message takes at most. */
const many = Array.from({ length: 250 }, () => bell);
let refusal: unknown;
while (refusal === undefined)
  try {
    if (!flooding.trySend(Buffer.from("x"), many)) throw new Error("the socket is full");
  } catch (error) {
    if (!isInFlightLimit(error)) throw error;
    refusal = error;
  }
const [own, peer] = SeqpacketSocket.pair();
const channel = new PacketChannel(own, { onPacket: () => {}, onEnd: () => {} });
channel.send(Buffer.from("late"), [bell]);
say({
  refused: hasCode(refusal, "TOO_MANY_FDS"),
  limited: channel.isInFlightLimited,
  arrived: peer.tryReceive() !== undefined,
});
await told();
for (;;) {
  const packet = unread.tryReceive((fd) => fd.close());
  if (packet === undefined || packet === "end") break;
  for (const fd of packet.fds) fd.close();
}
let found: string | undefined;
await until("the message arrives", () => {
  const packet = peer.tryReceive();
  if (packet === undefined || packet === "end") return false;
  found = `${Buffer.from(packet.bytes).toString()} ${packet.fds.length}`;
  for (const fd of packet.fds) fd.close();
  return true;
});
await until("nothing waits", () => !channel.isInFlightLimited);
say({ found });
channel.close();
