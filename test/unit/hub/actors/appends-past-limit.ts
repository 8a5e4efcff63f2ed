// Appends records to a journal until the limit of its file size (prlimit --fsize) stops it, and
// then one that fits. Prints the results. Arguments: path.
import { CudaIpcError } from "../../../../src/base/errors.js";
import { Journal } from "../../../../src/hub/restart/journal.js";
import { argument, say } from "../../../support/actor-side.js";

const { journal } = Journal.open(argument(0), "boot", () => {});
let published = 0;
let code = "none";
try {
  // Each longer than the last, so that no limit falls between two of them for ever.
  for (;;) {
    journal.append([
      { t: "published", object: 10 ** published },
      ...Array(published).fill({ t: "published", object: 1 }),
    ]);
    published += 1;
  }
} catch (error) {
  code = error instanceof CudaIpcError ? error.code : String(error);
}
journal.append([{ t: "last-id", id: 5 }]);
journal.close();
say({ published, code });
