/**
 * A producer or consumer of the matrix. Obeys the test's orders. Argument 0 is the hub's socket.
 */
import { connect } from "../../../../src/client/connect.js";
import type { SharedArray } from "../../../../src/client/objects/shared-array.js";
import { openBufferCount } from "../../../../src/gpu/memory/open-buffers.js";
import { mappedBytes } from "../../../../src/os/mapping.js";
import { openFdCount } from "../../../../src/os/owned-fd.js";
import { argument, obey } from "../../../support/matrix/obedience.js";
import type { OrderMessage } from "../../../support/matrix/orders.js";
import { STAMPED, stampedValues, stampOf } from "../../../support/matrix/stamped.js";

const hub = await connect({
  socket: argument(0),
  program: argument(1),
  start: false,
  device: "host",
});
const arrays = new Map<string, SharedArray>();

function held(name: string): SharedArray {
  const array = arrays.get(name);
  if (array === undefined) throw new TypeError(`"${name}" is not open here`);
  return array;
}

/** Closes the array that this process had under the name. */
function keep(name: string, array: SharedArray): void {
  arrays.get(name)?.close();
  arrays.set(name, array);
}

async function read(array: SharedArray): Promise<number> {
  return stampOf((await array.expectDType("int32").read()) as Int32Array);
}

async function carryOut(order: OrderMessage): Promise<unknown> {
  const { timeoutMs } = order;
  switch (order.do) {
    case "create": {
      const { name, elements = STAMPED.shape[0], lifetime = "held", replace = false } = order;
      const options = { ...STAMPED, shape: [elements], lifetime, replace, timeoutMs };
      keep(name, await hub.create(name, options));
      return undefined;
    }
    case "write":
      await held(order.name).expectDType("int32").write(stampedValues(order.stamp));
      return undefined;
    case "publish":
      await held(order.name).publish({ timeoutMs });
      return undefined;
    case "open": {
      const array = await hub.open(order.name, { timeoutMs });
      keep(order.name, array);
      return read(array);
    }
    case "read":
      return read(held(order.name));
    case "close":
      held(order.name).close();
      arrays.delete(order.name);
      // WHY this request: closing waits for no answer, but the hub answers requests in order.
      await hub.status({ timeoutMs });
      return undefined;
    case "ask":
      return hub.status({ timeoutMs });
    case "leave":
      for (const array of arrays.values()) array.close();
      arrays.clear();
      await hub.status({ timeoutMs });
      return { fds: openFdCount(), mappedBytes: mappedBytes(), buffers: openBufferCount() };
    default:
      throw new TypeError(`This process cannot ${order.do}`);
  }
}

obey(carryOut);
process.once("disconnect", () => process.exit(0));
