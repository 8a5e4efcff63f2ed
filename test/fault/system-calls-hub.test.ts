/** Each system call of a hub fails in turn while a client connects, shares and opens. */
import { describeSweeps } from "../support/hub-sweeps.js";

describeSweeps("a system call that fails in a hub while a client shares and opens", [
  { deed: "connect", before: [], calls: ["accept4", "getsockopt", "recvmsg", "sendmsg"] },
  { deed: "create", before: ["connect"], calls: ["recvmsg", "fstatSync", "writeSync", "sendmsg"] },
  { deed: "publish", before: ["connect"], calls: ["recvmsg", "writeSync", "sendmsg"] },
  { deed: "open", before: ["connect", "publish"], calls: ["open", "sendmsg", "close"] },
  { deed: "createTimeline", before: ["connect"], calls: ["recvmsg", "sendmsg"] },
  {
    deed: "openTimeline",
    before: ["connect", "createTimeline"],
    calls: ["open", "sendmsg", "close"],
  },
  { deed: "createBundle", before: ["connect"], calls: ["fstatSync", "sendmsg"] },
  { deed: "openBundle", before: ["connect", "bundle"], calls: ["open", "sendmsg", "close"] },
]);
