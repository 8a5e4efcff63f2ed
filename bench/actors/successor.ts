/** A hub that takes the place of the one that runs, or follows one that died, and says in one line of JSON that it serves. Argument: socket. */
import { takeOverHub } from "../../src/hub/taking-over.js";

process.umask(0o077);
const { predecessor } = await takeOverHub({ socket: process.argv[2], idleMs: Number.POSITIVE_INFINITY });
process.stdout.write(`${JSON.stringify({ ready: true, predecessor })}\n`);
