// Opens an array with a full table of open files, and again with a free entry. Prints both results.
// Run it with a low limit.
import { openSync } from "node:fs";
import { CudaIpcError } from "../../../../src/base/errors.js";
import { connect } from "../../../../src/client/connect.js";
import { OwnedFd, openFdCount } from "../../../../src/os/owned-fd.js";
import { argument, say } from "../../../support/actor-side.js";

await using hub = await connect({ socket: argument(0), start: false, device: "host" });
using _first = await hub.open(argument(1));
const before = openFdCount();
const fillers: OwnedFd[] = [];
try {
  for (;;) fillers.push(new OwnedFd(openSync("/dev/null", "r")));
} catch {
  // The table is full, as intended.
}
let code = "none";
try {
  (await hub.open(argument(1), { access: "read-write" })).close();
} catch (error) {
  code = error instanceof CudaIpcError ? error.code : String(error);
}
for (const filler of fillers) filler.close();
const left = openFdCount() - before;
using again = await hub.open(argument(1), { access: "read-write" });
say({ code, left, elements: again.elementCount, leases: (await hub.status()).leases });
