import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ownService } from "../../../src/os/control-group.js";

describe("the service of this process", () => {
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
        ownService(() => text),
        wanted,
      );
    });
  }
});
