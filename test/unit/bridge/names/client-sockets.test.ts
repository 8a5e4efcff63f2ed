import assert from "node:assert/strict";
import { once } from "node:events";
import {
  type AddressInfo,
  createConnection,
  createServer,
  type Server,
  type Socket,
} from "node:net";
import { afterEach, beforeEach, describe, it } from "node:test";
import { Deadline } from "../../../../src/base/deadline.js";
import { ClientSockets } from "../../../../src/bridge/names/client-sockets.js";
import { NatsStore } from "../../../../src/bridge/names/nats-store.js";
import { until } from "../../../support/until.js";

let server: Server;
let port: number;
/** The connections that the server has accepted. It sends nothing to them. */
let accepted: Socket[];

beforeEach(async () => {
  accepted = [];
  server = createServer((socket) => accepted.push(socket.resume()));
  await once(server.listen(0, "127.0.0.1"), "listening");
  ({ port } = server.address() as AddressInfo);
});
afterEach(() => {
  for (const socket of accepted) socket.destroy();
  server.close();
});

async function acceptedAt(index: number): Promise<Socket> {
  await until("a socket is accepted", () => accepted.length > index);
  return accepted[index] as Socket;
}

async function closed(socket: Socket): Promise<void> {
  await until("a socket is closed", () => socket.destroyed);
}

describe("ClientSockets", () => {
  it("closes those that read nothing at the next one, all at the end, and no others", async () => {
    const connect = () => createConnection(port, "127.0.0.1");
    const others = connect();
    const sockets = new ClientSockets();
    const first = await sockets.run(async () => {
      const made = connect();
      await acceptedAt(1);
      return made;
    });
    const second = sockets.run(connect);
    assert.equal(first.destroyed, true);
    (await acceptedAt(2)).write("INFO");
    await until("the second one hears", () => second.bytesRead > 0);
    const third = sockets.run(connect);
    assert.equal(second.destroyed, false);
    sockets.close();
    const late = sockets.run(connect);
    assert.deepEqual([second.destroyed, third.destroyed], [true, true]);
    await closed(late);
    assert.equal(others.destroyed, false);
    others.destroy();
  });
});

describe("NatsStore.connect()", () => {
  it("leaves no socket to a server that says nothing if it is given up", async () => {
    const stop = new AbortController();
    const deadline = new Deadline("start", { signal: stop.signal }, 60_000);
    const options = { url: `nats://127.0.0.1:${port}`, bucket: "b" };
    const connecting = NatsStore.connect(options, "test", deadline, () => {});
    const socket = await acceptedAt(0);
    stop.abort();
    await assert.rejects(connecting, { code: "ABORTED" });
    await closed(socket);
  });
});
