/** Each way to log in to NATS, as `doctor` tries it and as a bridge uses it. */
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { nkeys } from "@nats-io/transport-node";
import type { Check } from "../../../src/cli/doctor/check.js";
import { machineChecks } from "../../../src/cli/doctor/machine-checks.js";
import { natsOptionsOfEnvironment } from "../../../src/cli/nats-settings.js";
import { skipWithoutEngines } from "../../support/machines/engines.js";
import { TestMachine } from "../../support/machines/test-machine.js";
import { TestNats } from "../../support/machines/test-nats.js";
import { TestFolder } from "../../support/test-folder.js";
import { CliRig } from "../cli/cli-rig.js";

const CERTIFICATES = new URL("../../../../test/support/machines/certificates/", import.meta.url);
const certificate = (name: string) => fileURLToPath(new URL(name, CERTIFICATES));

/** What docs/machines.md says that a bridge needs, and nothing else. */
const SUBJECTS = '["$JS.API.>", "$KV.cuda-ipc.>", "cuda-ipc.cuda-ipc.>", "_INBOX.>"]';
const { signal } = new AbortController();

describe("a NATS server that wants a login", { skip: skipWithoutEngines }, () => {
  const folder = new TestFolder();
  const nkey = nkeys.createUser();
  const seed = folder.file("user.nk");
  let server: TestNats;
  let withTls: TestNats;

  before(async () => {
    writeFileSync(seed, nkey.getSeed());
    const allowed = `permissions: { publish: ${SUBJECTS}, subscribe: ${SUBJECTS} }`;
    const users = `users: [
      { user: alice, password: secret, ${allowed} }
      { nkey: ${nkey.getPublicKey()}, ${allowed} }
    ]`;
    const tls = `tls: {
      cert_file: "${certificate("server.pem")}", key_file: "${certificate("server.key")}"
      ca_file: "${certificate("ca.pem")}", verify: true
    }`;
    const start = (name: string, config: string) => {
      writeFileSync(folder.file(name), config);
      return TestNats.start(["-js", "-c", folder.file(name)]);
    };
    server = await start("login.conf", `authorization: { ${users} }`);
    withTls = await start("tls.conf", `${tls}\nauthorization: { ${users} }`);
  });
  after(async () => {
    await withTls?.[Symbol.asyncDispose]();
    await server?.[Symbol.asyncDispose]();
    folder[Symbol.dispose]();
  });

  const password = { CUDA_IPC_NATS_USER: "alice", CUDA_IPC_NATS_PASSWORD: "secret" };
  const nkeyFile = { CUDA_IPC_NATS_NKEY: seed };
  const authority = { CUDA_IPC_NATS_TLS_CA: certificate("ca.pem") };
  const own = {
    CUDA_IPC_NATS_TLS_CERT: certificate("client.pem"),
    CUDA_IPC_NATS_TLS_KEY: certificate("client.key"),
  };

  /** What `doctor` says with these variables. */
  async function tried(
    { url }: Pick<TestNats, "url">,
    variables: Readonly<Record<string, string>>,
  ): Promise<Check> {
    const environment = { CUDA_IPC_NATS: url, ...variables };
    const [, nats] = await machineChecks(natsOptionsOfEnvironment(environment), signal);
    assert.ok(nats !== undefined);
    return nats;
  }

  const accepted: readonly (readonly [string, () => TestNats, Readonly<Record<string, string>>])[] =
    [
      ["a user with a password", () => server, password],
      ["an nkey", () => server, nkeyFile],
      [
        "TLS, certificates of both sides, and a user",
        () => withTls,
        { ...authority, ...own, ...password },
      ],
      [
        "TLS, certificates of both sides, and an nkey",
        () => withTls,
        { ...authority, ...own, ...nkeyFile },
      ],
    ];
  for (const [what, of, variables] of accepted)
    it(`is tried by doctor with ${what}`, async () => {
      const { state, detail } = await tried(of(), variables);
      assert.equal(state, "ok", detail);
      assert.match(detail, /^version 2\.\d+\.\d+ stores a name in [\d.]+ ms$/);
    });

  const refused: readonly (readonly [
    string,
    () => Pick<TestNats, "url">,
    Readonly<Record<string, string>>,
    RegExp,
  ])[] = [
    ["no login", () => server, {}, /[Aa]uthoriz/],
    ["another password", () => server, { ...password, CUDA_IPC_NATS_PASSWORD: "x" }, /[Aa]uthoriz/],
    ["an authority that is unknown", () => withTls, { ...own, ...password }, /certificate/],
    [
      "no certificate of its own",
      () => withTls,
      { ...authority, ...password },
      /wants a certificate: see --tls-ca, --tls-cert/,
    ],
    [
      "tls:// to a server without TLS",
      () => ({ url: server.url.replace("nats:", "tls:") }),
      password,
      /server does not support 'tls'/,
    ],
    ["a file that is not there", () => server, { CUDA_IPC_NATS_NKEY: "/no/file" }, /\/no\/file/],
  ];
  for (const [what, of, variables, expected] of refused)
    it(`fails in doctor with ${what}, and doctor says what to do`, async () => {
      const { state, detail, toDo } = await tried(of(), variables);
      assert.equal(state, "failed", detail);
      assert.match(detail, expected);
      assert.ok(toDo !== undefined && toDo !== "");
    });

  it("is tried by the command `doctor`, and used by a bridge, with the same variables", async () => {
    await using rig = await CliRig.open();
    const variables = { ...authority, ...own, ...password };
    Object.assign(rig.env, { CUDA_IPC_NATS: withTls.url, ...variables });
    assert.match(await rig.ok("doctor", "--device", "host"), /^ {2}ok +NATS +version 2\./m);
    await using machine = await TestMachine.start("one", withTls, { env: variables });
    assert.equal((await machine.run("bridge", "status")).code, 0);
  });
});
