import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Command } from "commander";
import {
  type NatsSettings,
  natsLoginOptions,
  natsOptions,
  natsOptionsOfEnvironment,
} from "../../../src/cli/nats-settings.js";

describe("the token of a bridge", () => {
  const parsed = (...args: readonly string[]): NatsSettings => {
    const command = new Command();
    for (const option of natsLoginOptions()) command.addOption(option);
    return { nats: "x", ...command.parse(args, { from: "user" }).opts() } as NatsSettings;
  };

  it("comes from the environment, and is refused among the arguments, which others can read", () => {
    const environment = { CUDA_IPC_NATS_TOKEN: "secret" };
    assert.equal(natsOptions(parsed(), environment)?.token, "secret");
    assert.equal(natsOptions(parsed(), {})?.token, undefined);
    assert.throws(() => natsOptions(parsed("--token", "secret"), environment), {
      name: "UsageError",
      message:
        "--token is refused, because others can read it. Give the token in CUDA_IPC_NATS_TOKEN",
    });
  });
});

describe("natsOptionsOfEnvironment", () => {
  it("has the server and the login that the variables name", () => {
    assert.deepEqual(
      natsOptionsOfEnvironment({
        CUDA_IPC_NATS: "nats://10.0.0.1",
        CUDA_IPC_NATS_BUCKET: "ours",
        CUDA_IPC_NATS_DOMAIN: "hub",
        CUDA_IPC_NATS_USER: "alice",
        CUDA_IPC_NATS_PASSWORD: "secret",
        CUDA_IPC_NATS_TOKEN: "token",
        CUDA_IPC_NATS_CREDS: "/creds",
        CUDA_IPC_NATS_NKEY: "/nkey",
        CUDA_IPC_NATS_TLS_CA: "/ca",
        CUDA_IPC_NATS_TLS_CERT: "/cert",
        CUDA_IPC_NATS_TLS_KEY: "/key",
      }),
      {
        url: "nats://10.0.0.1",
        bucket: "ours",
        domain: "hub",
        user: "alice",
        password: "secret",
        token: "token",
        credsFile: "/creds",
        nkeyFile: "/nkey",
        caFile: "/ca",
        certFile: "/cert",
        keyFile: "/key",
      },
    );
  });

  it("uses the usual bucket, the server's domain, and a password only for a user", () => {
    const unset = { CUDA_IPC_NATS_PASSWORD: "y", CUDA_IPC_NATS_DOMAIN: "" };
    const found = natsOptionsOfEnvironment({ CUDA_IPC_NATS: "x", ...unset });
    assert.deepEqual(
      [found?.bucket, found?.domain, found?.password],
      ["cuda-ipc", undefined, undefined],
    );
  });

  it("has nothing if no server is named", () => {
    for (const CUDA_IPC_NATS of [undefined, ""])
      assert.equal(natsOptionsOfEnvironment({ CUDA_IPC_NATS }), undefined);
  });
});
