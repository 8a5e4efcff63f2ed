import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { PeerCertificate, ConnectionOptions as TlsOptions } from "node:tls";
import { loadNats } from "../../../../src/bridge/names/load-nats.js";
import { connectionOptions, natsError } from "../../../../src/bridge/names/nats-options.js";

/** Whether a bridge of this URL takes a server with a certificate for this name or address. */
async function accepts(url: string, host: string, subjectaltname: string): Promise<boolean> {
  const { transport } = await loadNats();
  const options = { url, bucket: "b", caFile: "/ca" };
  const tls = connectionOptions(transport, options, "test").tls as TlsOptions;
  const certificate = { subject: { CN: "x" }, subjectaltname } as unknown as PeerCertificate;
  return tls.checkServerIdentity?.(host, certificate) === undefined;
}

describe("connectionOptions", () => {
  it("checks the certificate of a server that was named by its address", async () => {
    // For an address, Node is told no host, and says "localhost".
    const of = (url: string, names: string) => accepts(url, "localhost", names);
    assert.equal(await of("tls://10.0.0.1:4222", "IP Address:10.0.0.1"), true);
    assert.equal(await of("tls://[fd00::1]:4222", "IP Address:fd00::1"), true);
    assert.equal(await of("tls://10.0.0.1,10.0.0.2:9", "IP Address:10.0.0.2"), true);
    assert.equal(await of("tls://10.0.0.1:4222", "IP Address:10.0.0.3"), false);
    assert.equal(await of("tls://10.0.0.1:4222", "DNS:localhost"), false);
    assert.equal(await of("tls://localhost,10.0.0.1", "DNS:localhost"), true);
    assert.equal(await of("tls://localhost,10.0.0.1", "IP Address:10.0.0.1"), false);
  });

  it("wants TLS of all servers if one has the scheme tls://, also without a file", async () => {
    const { transport } = await loadNats();
    const tlsOf = (url: string) => connectionOptions(transport, { url, bucket: "b" }, "test").tls;
    for (const url of ["tls://10.0.0.1", "nats://10.0.0.1, tls://10.0.0.2"])
      assert.equal(typeof tlsOf(url), "object", url);
    for (const url of ["nats://10.0.0.1", "10.0.0.1:4222"])
      assert.equal(tlsOf(url), undefined, url);
  });

  it("refuses a scheme and a login that the client of NATS would ignore", async () => {
    const { transport } = await loadNats();
    const refused: readonly (readonly [string, RegExp, RegExp])[] = [
      ["wss://10.0.0.1", /at wss:\/\/10\.0\.0\.1: the scheme is wss:\/\/, wanted nats/, /--nats/],
      ["nats://me:secret@10.0.0.1", /at nats:\/\/10\.0\.0\.1: a URL may have no login$/, /--user/],
      [
        "nats://one,secret@two",
        /at nats:\/\/one,two: a URL may have no login$/,
        /CUDA_IPC_NATS_TOKEN/,
      ],
    ];
    for (const [url, message, remedy] of refused)
      assert.throws(() => connectionOptions(transport, { url, bucket: "b" }, "test"), {
        code: "NATS_UNAVAILABLE",
        message,
        remedy,
      });
  });

  it("leaves the check of a server's name to Node", async () => {
    const of = (names: string) => accepts("tls://nats.example", "nats.example", names);
    assert.equal(await of("DNS:nats.example"), true);
    assert.equal(await of("DNS:other.example"), false);
  });
});

describe("natsError()", () => {
  it("shows no login of a URL, with a scheme or without", () => {
    const hidden = ["nats://me:secret@", "nats://secret@", "me:secret@", "tls://me:se/cr@et@"];
    for (const login of hidden) {
      const { message } = natsError("connect", `${login}10.0.0.1:4222`, new Error("refused"));
      assert.match(message, /^Cannot connect at (\w+:\/\/)?10\.0\.0\.1:4222: refused$/, login);
    }
    const several = natsError("connect", "a:secret@one,nats://b:secret@two", new Error("refused"));
    assert.equal(several.message, "Cannot connect at one,nats://two: refused");
  });
});
