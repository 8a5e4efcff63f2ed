// Locks a file, reports whether it got the lock, and holds it until its standard input ends.
// Arguments: path.
import { tryLockFile } from "../../../../src/os/file-lock.js";
import { argument, say, told } from "../../../support/actor-side.js";

const lock = tryLockFile(argument(0));
say(lock !== undefined);
await told();
