// Stands in for a hub that a keeper starts: writes the names of its descriptors to the file of
// argument 0, as JSON.
import { renameSync, writeFileSync } from "node:fs";
import { keptFds } from "../../../../src/os/received-fds.js";

const [, , out = ""] = process.argv;
const kept = keptFds();
writeFileSync(`${out}.new`, JSON.stringify(kept.map(({ name }) => name)));
renameSync(`${out}.new`, out);
process.exit(0);
