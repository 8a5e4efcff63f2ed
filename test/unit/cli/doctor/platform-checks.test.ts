import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { platformChecks } from "../../../../src/cli/doctor/platform-checks.js";
import { surroundingsOf, wordsOf } from "./made-surroundings.js";

describe("platform checks", () => {
  it("are empty on an ordinary machine", (t) => {
    const files = { "/proc/version": "Linux version 6.8.0-45-generic (buildd@lcy02)\n" };
    assert.deepEqual(platformChecks(surroundingsOf(t, { files })), []);
    const board = { "/proc/device-tree/model": "Raspberry Pi 5 Model B Rev 1.0\0" };
    assert.deepEqual(platformChecks(surroundingsOf(t, { files: board })), []);
  });

  it("recognise WSL, with notes for each mechanism", (t) => {
    const files = {
      "/proc/version": "Linux version 5.15.153.1-microsoft-standard-WSL2 (root@941d701f84f1)\n",
    };
    const words = wordsOf(platformChecks(surroundingsOf(t, { files })), "WSL");
    assert.match(
      words,
      /^this Linux runs inside Windows\nlegacy memory handles: .*R510[\s\S]*VMM and pools[\s\S]*host device/,
    );
  });

  it("recognise a Jetson by its model or its release file", (t) => {
    const model = { "/proc/device-tree/model": "NVIDIA Jetson AGX Orin Developer Kit\0" };
    const byModel = wordsOf(platformChecks(surroundingsOf(t, { files: model })), "Jetson");
    assert.match(
      byModel,
      /^NVIDIA Jetson AGX Orin Developer Kit\nlegacy memory handles: not supported/,
    );
    const release = { "/etc/nv_tegra_release": "# R35\n" };
    assert.match(
      wordsOf(platformChecks(surroundingsOf(t, { files: release })), "Jetson"),
      /^\/etc\/nv_tegra_release exists/,
    );
  });
});
