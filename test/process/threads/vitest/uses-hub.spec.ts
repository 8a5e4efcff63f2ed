// A user's test under Vitest: it uses a hub and leaves everything open.
import { connect } from "../../../../src/index.js";

declare const it: (name: string, body: () => Promise<void>) => void;

it("shares an array", async () => {
  const hub = await connect({ start: false, device: "host" });
  const array = await hub.create("of-vitest", { dtype: "int32", shape: [4] });
  await array.write(Int32Array.of(1, 2, 3, 4));
  await array.publish();
  const opened = (await hub.open("of-vitest")).expectDType("int32");
  if ((await opened.read())[3] !== 4) throw new Error("the array has other values");
});
