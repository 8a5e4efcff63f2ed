// Arguments: DEVICE ITERATIONS ROLE. The second ends at once, in failure; the first waits for a message of it.
import { Peer } from "../../../../bench/actors/actor.js";

if (process.argv[4] === "second") {
  console.error("no more");
  process.exit(7);
}
// WHY through the watching parent alone: with its own copy of both ends open the hang-up would be noticed too.
for (const peer = new Peer(); ; ) peer.receive();
