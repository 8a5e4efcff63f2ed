// Opens the array of a handle file, which may appear later, and prints its first value. When told,
// it prints whether the array can still be read. Arguments: file, what to do about a stale file.
import { openShared, readHandleFile } from "../../../../src/doors/peer.js";
import { CudaIpcError } from "../../../../src/index.js";
import { argument, say, told } from "../../../support/actor-side.js";

say("here");
try {
  const document = await readHandleFile(argument(0), { stale: argument(1) as "refuse" | "wait" });
  using array = (await openShared(document)).expectDType("int32");
  say((await array.read())[0]);
  await told();
  say((await array.read())[999]);
} catch (error) {
  say(error instanceof CudaIpcError ? error.code : String(error));
}
