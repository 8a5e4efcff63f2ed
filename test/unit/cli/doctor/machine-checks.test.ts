import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { machineChecks } from "../../../../src/cli/doctor/machine-checks.js";
import { skipWithoutUcx } from "../../../support/machines/engines.js";

const { signal } = new AbortController();

describe("machineChecks", () => {
  it("tries UCX, names the kinds of transports that it has, and says that it does not encrypt", {
    skip: skipWithoutUcx(),
  }, async () => {
    const [ucx] = await machineChecks(undefined, signal);
    assert.equal(ucx?.state, "ok", ucx?.detail);
    assert.match(
      ucx?.detail ?? "",
      /^version 1\.\d+\.\d+ at \S+ has (no )?rdma, (no )?cuda, tcp: .*tcp\//,
    );
    const notes = ucx?.notes?.join("; ") ?? "";
    assert.match(notes, /does not encrypt.*WireGuard/);
  });

  it("says that no NATS server was tried if none is named", async () => {
    const [, nats] = await machineChecks(undefined, signal);
    assert.equal(nats?.state, "fact");
    assert.match(nats?.detail ?? "", /client is installed; no server was tried/);
  });

  it("reports a NATS server that does not answer, with what to do", async () => {
    const [, nats] = await machineChecks({ url: "nats://127.0.0.1:1", bucket: "b" }, signal);
    assert.equal(nats?.state, "failed");
    assert.match(nats?.detail ?? "", /^NATS_UNAVAILABLE: .*127\.0\.0\.1:1/);
    assert.match(nats?.toDo ?? "", /2\.11 or newer/);
  });
});
