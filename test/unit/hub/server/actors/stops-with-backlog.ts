// Stops a hub while a client waits to be accepted that has sent a descriptor whose close waits. Says
// that the hub has stopped.
import { constants } from "node:os";
import { interceptLibc } from "../../../../../src/ffi/intercept-libc.js";
import { HubServer } from "../../../../../src/hub/server/hub-server.js";
import { SeqpacketSocket } from "../../../../../src/os/seqpacket.js";
import { SO_PASSRIGHTS } from "../../../../../src/os/socket-layout.js";
import { argument, say } from "../../../../support/actor-side.js";
import { LingeringSockets } from "../../../../support/waiting-fds.js";

const lingering = await LingeringSockets.open();
// Linux before 6.16 cannot refuse descriptors.
const undo = interceptLibc((call, [, , option]) =>
  call === "setsockopt" && option === SO_PASSRIGHTS ? constants.errno.ENOPROTOOPT : undefined,
);
const hub = HubServer.start({ socket: argument(0) });
undo();
// WHY in one turn: the hub accepts nobody before it stops.
const client = SeqpacketSocket.connect(argument(0));
const fd = lingering.make();
client.trySend(Buffer.from("x"), [fd]);
fd.close();
client.close();
hub.stop();
say("stopped");
