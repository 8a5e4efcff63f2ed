/** Each system call of a hub fails in turn while a client gives up, asks, releases and leaves. */
import { describeSweeps } from "../support/hub-sweeps.js";

describeSweeps("a system call that fails in a hub while a client releases", [
  { deed: "giveUp", before: ["connect"], calls: ["recvmsg", "sendmsg"] },
  { deed: "ask", before: ["connect", "publish"], calls: ["recvmsg", "sendmsg"] },
  { deed: "remove", before: ["connect", "publish"], calls: ["recvmsg", "sendmsg"] },
  {
    deed: "close",
    before: ["connect", "publish", "open", "createTimeline"],
    calls: ["recvmsg", "close"],
  },
  // No mapping: the hub may unmap only after the client has gone. The rows of `close` and the death
  // of a client cover it.
  {
    deed: "leave",
    before: ["connect", "publish", "open", "createTimeline"],
    calls: ["recvmsg", "sendmsg", "close"],
  },
]);
