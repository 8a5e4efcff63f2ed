// Reports the descriptors that it got at its start, and which of their variables are left.
import { fstatSync, readFileSync } from "node:fs";
import { SystemError } from "../../../../src/base/errors.js";
import { openFdCount } from "../../../../src/os/owned-fd.js";
import { receivedFds } from "../../../../src/os/received-fds.js";

const left = () => Object.keys(process.env).filter((name) => name.startsWith("LISTEN_"));
let said: object;
try {
  const fds = receivedFds();
  const received = fds.map(({ name, fd }) => {
    const info = readFileSync(`/proc/self/fdinfo/${fd.number}`, "utf8");
    return { name, inode: fstatSync(fd.number).ino, flags: /^flags:\s+(\d+)$/m.exec(info)?.[1] };
  });
  said = { received, again: receivedFds().length, left: left() };
  for (const { fd } of fds) fd.close();
} catch (error) {
  if (!(error instanceof SystemError)) throw error;
  said = { code: error.code, message: error.message, openFds: openFdCount(), left: left() };
}
process.stdout.write(JSON.stringify(said));
