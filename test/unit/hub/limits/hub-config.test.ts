import assert from "node:assert/strict";
import { chmodSync, chownSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { describe, it } from "node:test";
import { CudaIpcError, hasCode } from "../../../../src/base/errors.js";
import { limits } from "../../../../src/base/limits.js";
import {
  defaultConfigPath,
  hubSettings,
  readHubConfig,
} from "../../../../src/hub/limits/config-file.js";
import {
  checkHubConfig,
  NO_CONFIG,
  overlay,
  policyOf,
} from "../../../../src/hub/limits/hub-config.js";
import {
  defaultQuotas,
  defaultQuotasOf,
  privatePolicy,
  shareOf,
} from "../../../../src/hub/limits/policy.js";
import { skipUnlessRoot } from "../../../support/other-user.js";
import { TestFolder } from "../../../support/test-folder.js";

const names = {
  users: (name: string | number) =>
    typeof name === "number" ? name : { alice: 1000, bob: 1001, "1000": 1000 }[name],
  groups: (name: string | number) => (typeof name === "number" ? name : { render: 44 }[name]),
};

const checkIt = (value: unknown) => checkHubConfig("the file", value, names);

function mistake(value: unknown): string {
  try {
    checkIt(value);
  } catch (error) {
    assert.ok(hasCode(error, "INVALID_FILE"), String(error));
    return error.message.replace(/^Cannot use the file: /, "");
  }
  return assert.fail("it was accepted");
}

describe("a hub's configuration", () => {
  it("turns names into uids, sizes into bytes, and limits into overrides of the defaults", () => {
    const config = checkIt({
      users: ["alice", 7],
      groups: ["render"],
      idleMs: null,
      limits: {
        hub: { hostBytes: "64GiB", clients: "unlimited" },
        user: { objects: 10, deviceBytes: 5 },
        client: { messagesPerSecond: 1 },
      },
      userLimits: { alice: { objects: 20 } },
    });
    assert.equal(config.idleMs, Number.POSITIVE_INFINITY);
    const policy = policyOf(500, config);
    assert.deepEqual([policy.users, policy.groups], [new Set([1000, 7]), new Set([44])]);
    const user = { ...shareOf(policy.limits.hub), objects: 10, deviceBytes: 5 };
    assert.deepEqual(policy.limits, {
      hub: { ...defaultQuotas.hub, hostBytes: 2 ** 36, clients: Number.POSITIVE_INFINITY },
      user,
      client: { ...defaultQuotas.client, messagesPerSecond: 1 },
    });
    assert.deepEqual(policy.userLimits, new Map([[1000, { ...user, objects: 20 }]]));
  });

  it("accepts the example of the documentation", () => {
    const example = readFileSync(
      new URL("../../../../../deploy/hub.json", import.meta.url),
      "utf8",
    );
    const lookup = () => 7;
    const config = checkHubConfig("deploy/hub.json", JSON.parse(example), {
      users: lookup,
      groups: lookup,
    });
    assert.equal(config.socket, "/run/cuda-ipc/hub.sock");
  });

  it("gives a private hub if it is empty", () => {
    assert.deepEqual(policyOf(500, checkIt({})), privatePolicy(500));
    assert.equal(policyOf(500, checkIt({ users: "all" })).users, "all");
  });

  it("leaves a quarter of the hub's open files to new clients by default", () => {
    const quotas = defaultQuotasOf(1025);
    assert.deepEqual(policyOf(500, checkIt({}), quotas), privatePolicy(500, quotas));
    assert.equal(quotas.hub.descriptors, 768);
    const of = (descriptors: unknown) =>
      policyOf(500, checkIt({ limits: { hub: { descriptors } } }), quotas).limits;
    assert.deepEqual(
      [of("unlimited").hub.descriptors, of(900).hub.descriptors],
      [Number.POSITIVE_INFINITY, 900],
    );
    assert.equal(
      defaultQuotasOf(Number.POSITIVE_INFINITY).hub.descriptors,
      Number.POSITIVE_INFINITY,
    );
  });

  const mistakes: readonly (readonly [unknown, string])[] = [
    [
      [],
      "the document is [], wanted an object with any of socket, idleMs, logLevel, logFormat, users, groups, limits, userLimits",
    ],
    [null, "the document is null, wanted an object with"],
    [
      { user: [] },
      "user is no field of a hub's configuration, wanted an object with any of socket, idleMs",
    ],
    [
      { limits: { user: { bytes: 1 } } },
      "limits.user.bytes is no field of a hub's configuration, wanted an object with any of clients, objects",
    ],
    [{ limits: { client: { clients: 1 } } }, "limits.client.clients is no field"],
    [{ logLevel: "loud" }, 'logLevel is "loud", wanted one of error, warn, info, debug'],
    [{ logFormat: true }, "logFormat is true, wanted one of text, json"],
    [{ limits: { users: {} } }, "limits.users is no field"],
    [{ limits: 5 }, "limits is 5, wanted an object with any of hub, user, client"],
    [
      { limits: { user: { objects: -1 } } },
      'limits.user.objects is -1, wanted an integer from 0, or "unlimited"',
    ],
    [{ limits: { user: { objects: 1.5 } } }, "limits.user.objects is 1.5, wanted an integer"],
    [{ limits: { user: { objects: "8" } } }, 'limits.user.objects is "8", wanted an integer'],
    [{ limits: { hub: { objects: null } } }, "limits.hub.objects is null, wanted an integer"],
    [
      { limits: { user: { hostBytes: -1 } } },
      'limits.user.hostBytes is -1, wanted a number of bytes, a size such as "64GiB", or "unlimited"',
    ],
    [{ limits: { user: { hostBytes: "8 gigs" } } }, 'limits.user.hostBytes is "8 gigs", wanted'],
    [{ limits: { user: { hostBytes: "8GB" } } }, 'limits.user.hostBytes is "8GB", wanted'],
    [
      { limits: { user: { hostBytes: "99999999PiB" } } },
      'limits.user.hostBytes is "99999999PiB", wanted',
    ],
    [
      { limits: { client: { messagesPerSecond: 0 } } },
      'limits.client.messagesPerSecond is 0, wanted an integer from 1, or "unlimited"',
    ],
    [{ users: "alice" }, 'users is "alice", wanted a list of users, or "all"'],
    [{ users: ["alice", "eve"] }, 'users.1 is "eve", wanted a user of /etc/passwd, or a number'],
    [{ users: [true] }, "users is [true], wanted a list of users"],
    [{ groups: "render" }, 'groups is "render", wanted a list of groups'],
    [{ groups: [{}] }, "groups.0 is {}, wanted the name or number of one"],
    [{ groups: ["wheel"] }, 'groups.0 is "wheel", wanted a group of /etc/group, or a number'],
    [{ userLimits: [] }, "userLimits is [], wanted an object of limits by user"],
    [{ userLimits: { eve: {} } }, 'userLimits is "eve", wanted a user'],
    [
      { userLimits: { alice: { objects: "x" } } },
      'userLimits.alice.objects is "x", wanted an integer',
    ],
    [
      { userLimits: { alice: {}, "1000": {} } },
      "userLimits.alice is user 1000 a second time, wanted each user once",
    ],
    [
      { idleMs: -1 },
      "idleMs is -1, wanted an integer from 0 to 2147483647, or null for a hub that stays",
    ],
    [{ idleMs: 2 ** 31 }, "idleMs is 2147483648, wanted"],
    [{ socket: "hub.sock" }, 'socket is "hub.sock", wanted an absolute path of at most 107 bytes'],
  ];
  for (const [value, words] of mistakes) {
    it(`names the fault of ${JSON.stringify(value)} and where it is`, () => {
      const found = mistake(value);
      assert.ok(found.startsWith(words), found);
    });
  }

  it("refuses a socket path that is too long for the system", () => {
    assert.match(
      mistake({ socket: `/${"x".repeat(107)}` }),
      /^socket is .*, wanted an absolute path of at most 107 bytes/,
    );
    assert.equal(checkIt({ socket: `/${"x".repeat(106)}` }).socket?.length, 107);
  });

  it("is overridden field by field and limit by limit", () => {
    const file = checkIt({
      users: "all",
      idleMs: 5,
      limits: { user: { objects: 1, leases: 2 } },
      userLimits: { bob: { leases: 3 } },
    });
    const flags = checkIt({
      users: ["bob"],
      limits: { user: { objects: 9 } },
      userLimits: { bob: { objects: 4 } },
    });
    const { users, idleMs, limits, userLimits } = overlay(file, flags);
    assert.deepEqual([users, idleMs, limits.user], [new Set([1001]), 5, { objects: 9, leases: 2 }]);
    assert.deepEqual(userLimits, new Map([[1001, { leases: 3, objects: 4 }]]));
    assert.deepEqual(overlay(file, NO_CONFIG), file);
  });
});

describe("a hub's configuration file", () => {
  function fileOf(folder: TestFolder, text: string, mode = 0o644): string {
    const path = folder.file("hub.json");
    writeFileSync(path, text);
    chmodSync(path, mode);
    return path;
  }

  function refusal(path: string): string {
    try {
      readHubConfig(path, names);
    } catch (error) {
      assert.ok(error instanceof CudaIpcError && error.code === "INVALID_FILE", String(error));
      return error.message;
    }
    return assert.fail("it was accepted");
  }

  it("is read, and errors name it", () => {
    using folder = new TestFolder();
    const path = fileOf(folder, '{"limits": {"user": {"hostBytes": "1KiB"}}}');
    assert.deepEqual(readHubConfig(path, names).limits.user, { hostBytes: 1024 });
    const bad = fileOf(folder, '{"limits": {"user": {"hostBytes": "much"}}}');
    assert.match(
      refusal(bad),
      new RegExp(`^Cannot use the configuration ${bad}: limits.user.hostBytes is "much", wanted`),
    );
  });

  it("is refused if it is missing, not JSON, not a file, or too long", () => {
    using folder = new TestFolder();
    assert.match(refusal(folder.file("none.json")), /none\.json: there is no such file$/);
    assert.match(refusal(fileOf(folder, "{ users: }")), /it is not JSON \(/);
    mkdirSync(folder.file("folder"));
    assert.match(refusal(folder.file("folder")), /it is not a plain file$/);
    assert.match(
      refusal(fileOf(folder, " ".repeat(limits.configFileBytesMax + 1))),
      /it has more than 1048576 bytes, the limit \(configFileBytesMax\)$/,
    );
  });

  it("is refused if other users can write to it", () => {
    using folder = new TestFolder();
    for (const mode of [0o664, 0o646, 0o666]) {
      assert.match(
        refusal(fileOf(folder, "{}", mode)),
        new RegExp(`its mode is 0${mode.toString(8)}, wanted`),
      );
    }
    assert.ok(readHubConfig(fileOf(folder, "{}", 0o600), names));
  });

  it("is refused if it belongs to another user", { skip: skipUnlessRoot }, () => {
    using folder = new TestFolder();
    const path = fileOf(folder, "{}");
    chownSync(path, 12_345, 0);
    assert.match(refusal(path), /it belongs to user 12345, wanted a file of root$/);
  });

  it("is looked for in XDG_CONFIG_HOME", () => {
    using folder = new TestFolder();
    const env = { XDG_CONFIG_HOME: folder.path };
    assert.notEqual(defaultConfigPath(env), folder.file("cuda-ipc/hub.json"));
    mkdirSync(folder.file("cuda-ipc"));
    writeFileSync(folder.file("cuda-ipc/hub.json"), "{}");
    assert.equal(defaultConfigPath(env), folder.file("cuda-ipc/hub.json"));
    assert.notEqual(
      defaultConfigPath({ XDG_CONFIG_HOME: "relative" }),
      folder.file("cuda-ipc/hub.json"),
    );
  });

  it("yields to flags, and its socket to CUDA_IPC_SOCKET", (t) => {
    using folder = new TestFolder();
    const path = fileOf(
      folder,
      '{"socket": "/run/x/hub.sock", "idleMs": 7, "limits": {"user": {"objects": 1}}}',
    );
    const flags = { ...NO_CONFIG, limits: { ...NO_CONFIG.limits, user: { objects: 2 } } };
    const before = process.env.CUDA_IPC_SOCKET;
    t.after(() => {
      if (before === undefined) delete process.env.CUDA_IPC_SOCKET;
      else process.env.CUDA_IPC_SOCKET = before;
    });
    delete process.env.CUDA_IPC_SOCKET;
    const { file, socket, idleMs, policy } = hubSettings(path, flags);
    assert.deepEqual(
      [file, socket, idleMs, policy.limits.user.objects],
      [path, "/run/x/hub.sock", 7, 2],
    );
    process.env.CUDA_IPC_SOCKET = "/other/hub.sock";
    assert.equal(hubSettings(path).socket, undefined);
  });
});
