import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { networkInterfaces } from "node:os";
import { describe, it } from "node:test";
import { interfaceNames } from "../../../src/cli/network-interfaces.js";
import { TestFolder } from "../../support/test-folder.js";

const addressed = Object.keys(networkInterfaces()).sort();

describe("interfaceNames()", () => {
  it("has the interfaces with an address, then each port of an RDMA device", () => {
    using folder = new TestFolder();
    for (const port of ["mlx5_1/ports/1", "mlx5_0/ports/2", "mlx5_0/ports/1"])
      mkdirSync(folder.file(port), { recursive: true });
    const ports = ["mlx5_0:1", "mlx5_0:2", "mlx5_1:1"];
    assert.deepEqual(interfaceNames(folder.path), [...addressed, ...ports]);
  });

  it("has no ports if the machine has no RDMA device", () => {
    using folder = new TestFolder();
    assert.deepEqual(interfaceNames(folder.file("none")), addressed);
  });
});
