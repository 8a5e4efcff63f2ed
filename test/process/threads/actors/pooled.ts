// A task of a thread pool: shares an array through a hub, leaves everything open, and returns what
// it read.
import { connect } from "../../../../src/index.js";

export default async function share({
  socket,
  index,
}: {
  socket: string;
  index: number;
}): Promise<number> {
  const hub = await connect({ socket, start: false, device: "host" });
  const array = await hub.create(`task-${index}`, { dtype: "int32", shape: [4] });
  await array.write(new Int32Array(4).fill(index));
  await array.publish();
  const opened = (await hub.open(`task-${index}`)).expectDType("int32");
  return (await opened.read())[3] as number;
}
