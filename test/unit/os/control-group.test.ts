import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { leaveService, serviceOf } from "../../../src/os/control-group.js";

describe("the service of a process", () => {
  const user = "/user.slice/user-1000.slice";
  for (const [text, wanted] of [
    ["0::/system.slice/web.service\n", "web.service"],
    ["0::/system.slice/web.service/worker\n", "web.service"],
    [`0::${user}/user@1000.service/app.slice/web.service\n`, "web.service"],
    ["12:cpu:/system.slice/a.service\n1:name=systemd:/system.slice/web.service\n", "web.service"],
    [`0::${user}/session-2.scope\n`, undefined],
    [`0::${user}/user@1000.service/app.slice/app-terminal.scope\n`, undefined],
    [`0::${user}/user@1000.service/init\n`, undefined],
    ["0::/\n", undefined],
    ["", undefined],
  ] as const) {
    it(`is ${wanted ?? "none"} with ${JSON.stringify(text)}`, () => {
      assert.equal(
        serviceOf(1, () => text),
        wanted,
      );
    });
  }
});

describe("leaving a service", () => {
  const inService = "0::/system.slice/web.service\n";
  const inScope = "0::/system.slice/cuda-ipc-hub.scope\n";

  it("asks systemd for a scope with this process, and waits until it is there", async () => {
    const calls: (readonly string[])[] = [];
    const looks = [inService, inService, inService, inScope, inScope];
    const call = async (args: readonly string[]) => calls.push(args);
    const found = await leaveService("a test", { call, read: () => looks.shift() ?? inScope });
    assert.equal(found, undefined);
    assert.equal(calls.length, 1);
    const text = calls[0]?.join(" ") ?? "";
    assert.match(text, /StartTransientUnit ssa\(sv\)a\(sa\(sv\)\) cuda-ipc-hub-\d+\.scope fail 4/);
    assert.match(text, new RegExp(` PIDs au 1 ${process.pid} Description s a test .* 0$`));
  });

  it("asks nobody outside of a service", async () => {
    const call = async () => assert.fail("it asked");
    assert.equal(await leaveService("a test", { call, read: () => inScope }), undefined);
  });

  it("names the service if systemd does not answer", async () => {
    const call = async () => Promise.reject(new Error("no bus"));
    assert.equal(await leaveService("a test", { call, read: () => inService }), "web.service");
  });
});
