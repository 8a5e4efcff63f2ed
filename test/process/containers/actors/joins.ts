// Joins a hub and holds an array on it. Reports success or the error, and each return to a hub.
// Arguments: socket.
import { CudaIpcError } from "../../../../src/base/errors.js";
import { connect } from "../../../../src/client/connect.js";
import { argument, say, told } from "../../../support/actor-side.js";

try {
  await using hub = await connect({ socket: argument(0), device: "host" });
  hub.onReconnect(({ resumed }) => say({ resumed }));
  using _array = await hub.create("frame", { dtype: "int32", shape: [3] });
  say({ joined: true });
  await told();
} catch (error) {
  say(error instanceof CudaIpcError ? { code: error.code, message: error.message } : String(error));
}
