import assert from "node:assert/strict";
import { once } from "node:events";
import { chmod, writeFile } from "node:fs/promises";
import { createInterface } from "node:readline";
import { describe, it } from "node:test";
import { CliRig, type Started } from "./cli-rig.js";

async function firstLine({ child }: Started): Promise<string> {
  assert.ok(child.stdout !== null);
  const [line] = (await once(createInterface({ input: child.stdout }), "line")) as [string];
  return line;
}

describe("cuda-ipc hub serve", () => {
  it("takes limits from its configuration, which flags override", async () => {
    await using rig = await CliRig.open();
    const config = rig.path("hub.json");
    await writeFile(
      config,
      JSON.stringify({ idleMs: null, limits: { user: { objects: 1, hostBytes: "1MiB" } } }),
      {
        mode: 0o644,
      },
    );
    const served = rig.start(
      "hub",
      "serve",
      "--config",
      config,
      "--limit",
      "user.objects=2",
      "--limit",
      "client.leases=9",
    );
    assert.match(await firstLine(served), /listens at/);
    await writeFile(rig.path("bytes"), "abc");
    await rig.ok("put", "one", rig.path("bytes"));
    await rig.ok("put", "two", rig.path("bytes"));
    assert.match(
      await rig.fails("LIMIT_EXCEEDED", "put", "three", rig.path("bytes")),
      /over its limit of 2 \(limits\.user\.objects\)/,
    );
    const status = await rig.ok("hub", "status");
    assert.match(status, /the hub: objects 2 of 50000\n +the hub: descriptors 2 of \d+\n/);
    assert.match(
      status,
      / +you: objects 2 of 2\n +you: hostBytes 8 KiB of 1 MiB\n +each client: leases 9\n/,
    );
    served.child.kill("SIGTERM");
    const { stdout } = await served.outcome;
    assert.ok(
      stdout.includes(`configured by ${config}`) && stdout.includes("stays until it is stopped"),
      stdout,
    );
  });

  it("names what is wrong with a file or flag", async () => {
    await using rig = await CliRig.open();
    const config = rig.path("hub.json");
    await writeFile(config, '{"limits": {"user": {"hostBytes": "much"}}}', { mode: 0o644 });
    for (const command of [
      ["hub", "serve", "--config", config],
      ["hub", "check-config", config],
    ]) {
      const words = await rig.fails("INVALID_FILE", ...command);
      assert.match(
        words,
        /Cannot use the configuration .+hub\.json: limits\.user\.hostBytes is "much", wanted .+\n +hint: .+check-config/,
      );
    }
    const wrong: readonly (readonly [string, string, RegExp])[] = [
      ["--limit", "user.hostBytes=8GB", /limits\.user\.hostBytes is "8GB", wanted/],
      ["--limit", "user.bytes=8", /LEVEL is hub, user or client/],
      ["--limit", "objects=8", /LEVEL is hub, user or client/],
      ["--allow-users", "no-such-user", /users\.0 is "no-such-user", wanted a user of/],
      ["--allow-groups", "no-such-group", /groups\.0 is "no-such-group", wanted a group of/],
    ];
    for (const [flag, value, words] of wrong)
      assert.match(await rig.fails("USAGE", "hub", "serve", flag, value), words);
  });

  it("refuses a configuration that other users can write to", async () => {
    await using rig = await CliRig.open();
    const config = rig.path("hub.json");
    await writeFile(config, "{}");
    await chmod(config, 0o666);
    assert.match(
      await rig.fails("INVALID_FILE", "hub", "serve", "--config", config),
      /its mode is 0666, wanted/,
    );
  });

  it("checks a configuration and prints what it sets", async () => {
    await using rig = await CliRig.open();
    const config = rig.path("hub.json");
    const fields = {
      users: ["root", 1234],
      groups: [44],
      limits: { user: { deviceBytes: "64GiB" } },
      userLimits: { 1234: { objects: 5 } },
    };
    await writeFile(config, JSON.stringify(fields), { mode: 0o644 });
    const said = await rig.ok("hub", "check-config", config);
    assert.match(said, /serves +user \d+; users 0, 1234; members of groups 44\n/);
    assert.match(said, /limits\.user +clients 512, .+, deviceBytes 64 GiB\n/);
    assert.match(said, /userLimits\.1234 +clients 512, objects 5, .+, deviceBytes 64 GiB\n/);
  });
});

describe("cuda-ipc put --share", () => {
  it("shares with other users, which ls and inspect show", async () => {
    await using rig = await CliRig.open();
    await writeFile(rig.path("bytes"), "abc");
    await rig.ok("put", "mine", rig.path("bytes"));
    assert.doesNotMatch(await rig.ok("ls"), /SHARED/);
    await rig.ok("put", "ours", rig.path("bytes"), "--share", "group");
    await rig.ok(
      "put",
      "everybodys",
      rig.path("bytes"),
      "--share",
      "all",
      "--share-access",
      "read-write",
    );
    const listed = await rig.ok("ls");
    assert.match(listed, /USER +SHARED/);
    assert.match(listed, /^everybodys .+ all, read-write *$/m);
    assert.match(listed, /^mine .+ private *$/m);
    assert.match(listed, /^ours .+ group, read *$/m);
    assert.match(await rig.ok("inspect", "ours"), /owner +\S+\n +sharing +group, read\n/);
    assert.match(await rig.ok("inspect", "mine"), /sharing +private: only for this user\n/);
    await rig.fails("USAGE", "put", "x", rig.path("bytes"), "--share-access", "read");
    await rig.fails("USAGE", "put", "x", rig.path("bytes"), "--share", "some");
  });
});
