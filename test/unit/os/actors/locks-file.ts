// Takes the lock on a file and says whether it got it; holds it until its standard input ends. Arguments: path.
import { tryLockFile } from "../../../../src/os/file-lock.js";
import { argument, say, told } from "../../../support/actor-side.js";

const lock = tryLockFile(argument(0));
say(lock !== undefined);
await told();
