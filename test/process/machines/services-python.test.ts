/** A worker and a client in Python, each with the other side on another machine. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { connectService } from "../../../src/service/service-client.js";
import { skipWithoutEngines } from "../../support/machines/engines.js";
import { TestMachine } from "../../support/machines/test-machine.js";
import { TestNats } from "../../support/machines/test-nats.js";
import { PythonProgram } from "../../support/python-program.js";
import { noPytest } from "../../support/run-pytest.js";
import { ask, SERVICE, startWorker } from "../service/service-rig.js";

const WORKER = `
import array, os, sys, cuda_ipc
with cuda_ipc.connect(sys.argv[1], start=False) as hub:
    def double(request, reply):
        values = request.array.tolist()
        reply.loan().write(array.array("d", [2 * value for value in values]))
        return {"meta": {"pid": os.getpid(), "id": request.json["id"]}}
    eight = ("float64", 8)
    with hub.serve("double", double, request=eight, reply=eight, sharing={"machines": True}):
        print("ready", flush=True)
        sys.stdin.readline()
`;

const CLIENT = `
import array, sys, cuda_ipc
with cuda_ipc.connect(sys.argv[1], start=False) as hub:
    with hub.connect_service("double", machine="any", policy="fail") as client:
        for number in range(5):
            data = array.array("d", [number] * 8)
            with client.request(data, meta={"op": "double", "id": number}, timeout=25) as reply:
                assert reply.array.tolist() == [2.0 * number] * 8, reply.array.tolist()
                assert reply.json["id"] == number
    print("answered", flush=True)
    with hub.connect_service("double") as here:
        try:
            here.request(array.array("d", [0] * 8), meta={"op": "double"}, timeout=1)
        except cuda_ipc.CudaIpcTimeout:
            print("far only", flush=True)
    with hub.connect_service("nothing", machine="any") as none:
        try:
            none.request(None, timeout=1)
        except cuda_ipc.CudaIpcTimeout as late:
            print(late, flush=True)
`;

describe("a service across machines", { skip: skipWithoutEngines || noPytest }, () => {
  it("has workers and clients in Python", async () => {
    await using nats = await TestNats.start();
    await using one = await TestMachine.start("one", nats);
    await using other = await TestMachine.start("other", nats);
    await using hubOfOther = await other.connect();
    {
      await using worker = new PythonProgram(WORKER, one.hub.socket);
      await worker.says("ready");
      await using client = connectService(hubOfOther, SERVICE, { machine: "any" });
      for (const id of [1, 2, 3]) assert.equal((await ask(client, { id })).id, id);
    }
    await using _worker = await startWorker(one.hub.socket, SERVICE, {
      sharing: { machines: true },
    });
    await using client = new PythonProgram(CLIENT, other.hub.socket);
    await client.says("answered");
    await client.says("far only");
    await client.ended();
    assert.match(client.said, /NOT_FOUND: .*no other machine has announced workers of it/);
  });
});
