/** A worker of another user. Prints whether it may serve, and leaves. */
import { serve } from "../../../../src/doors/service.js";
import { type CudaIpcError, connect } from "../../../../src/index.js";
import { argument, say } from "../../../support/actor-side.js";

const hub = await connect({ socket: argument(0), start: false, device: "host" });
const options = { request: { byteLength: 8 } };
try {
  await (await serve(hub, argument(1), options, () => {})).close();
  say({});
} catch (error) {
  const { code, message } = error as CudaIpcError;
  say({ code, message });
}
await hub.close();
