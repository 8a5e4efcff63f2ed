// Receives an offered array, verifies it, acknowledges it if told to, and prints the result.
// Arguments: socket, acknowledge.
import { receiveOffer } from "../../../../src/doors/peer.js";
import { CudaIpcError } from "../../../../src/index.js";
import { argument, say } from "../../../support/actor-side.js";

say("here");
try {
  using received = await receiveOffer(argument(0));
  const values = await received.array.expectDType("int32").read();
  const wrong = values.filter((value, i) => value !== ((i * 2 + 1337) ^ 0xdeadbeef)).length;
  if (argument(1) === "acknowledge") received.acknowledge();
  say({ elements: values.length, wrong });
} catch (error) {
  say({ code: error instanceof CudaIpcError ? error.code : String(error) });
}
