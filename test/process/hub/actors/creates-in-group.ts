// For each line `MIB PREALLOCATE` creates an array of this size, keeps it, and says OK or the code.
import { CudaIpcError } from "../../../../src/base/errors.js";
import { connect } from "../../../../src/client/connect.js";
import { argument, say, told } from "../../../support/actor-side.js";

await using hub = await connect({ socket: argument(0), start: false, device: "host" });
for (let count = 0; ; count += 1) {
  const [mebibytes, preallocate] = (await told()).split(" ");
  const shape = [Number(mebibytes) * 1024 * 1024];
  const options = { dtype: "uint8", shape, preallocate: preallocate === "true" } as const;
  say(
    await hub.create(`array-${count}`, options).then(
      () => "OK",
      (error: unknown) => (error instanceof CudaIpcError ? error.code : String(error)),
    ),
  );
}
