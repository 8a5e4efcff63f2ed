/** Each system call of a hub fails in turn while a client gives up, asks, gives back and leaves. */
import { describeSweeps } from "../support/hub-sweeps.js";

describeSweeps("a system call that fails in a hub while a client gives back", [
  { deed: "giveUp", before: ["connect"], calls: ["recvmsg", "sendmsg"] },
  { deed: "ask", before: ["connect", "publish"], calls: ["recvmsg", "sendmsg"] },
  { deed: "remove", before: ["connect", "publish"], calls: ["recvmsg", "sendmsg"] },
  {
    deed: "close",
    before: ["connect", "publish", "open", "createTimeline"],
    calls: ["recvmsg", "close"],
  },
  // No mapping: what ends with a session may end once its client has gone. `close` ends the same,
  // and so does the death of a client.
  {
    deed: "leave",
    before: ["connect", "publish", "open", "createTimeline"],
    calls: ["recvmsg", "sendmsg", "close"],
  },
]);
