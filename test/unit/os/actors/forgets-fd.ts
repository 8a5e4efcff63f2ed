// Forgets a descriptor, has it collected, and reports whether it is still open and counted. Run it
// with --expose-gc.
import { openSync, readlinkSync } from "node:fs";
import { OwnedFd, openFdCount } from "../../../../src/os/owned-fd.js";

let number = 0;
(() => {
  number = new OwnedFd(openSync("/dev/zero", "r")).number;
})();
process.once("warning", () => {
  process.stdout.write(JSON.stringify({ open: isOpen(), count: openFdCount() }));
  clearInterval(timer);
});
const timer = setInterval(() => globalThis.gc?.(), 5);

function isOpen(): boolean {
  try {
    // WHY by name: libuv may use the number again.
    return readlinkSync(`/proc/self/fd/${number}`) === "/dev/zero";
  } catch {
    return false;
  }
}
