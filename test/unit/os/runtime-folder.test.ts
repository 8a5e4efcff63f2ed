import assert from "node:assert/strict";
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import { hasCode } from "../../../src/base/errors.js";
import {
  checkCommonFolder,
  checkRuntimeFolder,
  hubSocketPath,
  ownUid,
  prepareCommonFolder,
  prepareRuntimeFolder,
  runtimeSocketPath,
} from "../../../src/os/runtime-folder.js";
import { checkLeaks } from "../../support/leak-check.js";
import { TestFolder } from "../../support/test-folder.js";

function assertUnsafe(socketPath: string, reason: RegExp): void {
  for (const attempt of [checkRuntimeFolder, prepareRuntimeFolder]) {
    assert.throws(
      () => attempt(socketPath),
      (error) => hasCode(error, "UNSAFE_RUNTIME_DIR") && reason.test(error.message),
    );
  }
}

describe("hubSocketPath", () => {
  it("takes the argument, else CUDA_IPC_SOCKET, else XDG_RUNTIME_DIR, else the folder for temporary files", () => {
    using runtime = new TestFolder();
    const env = { CUDA_IPC_SOCKET: "/from/env.sock", XDG_RUNTIME_DIR: runtime.file("") };
    assert.equal(hubSocketPath("/from/argument.sock", env), "/from/argument.sock");
    assert.equal(hubSocketPath(undefined, env), "/from/env.sock");
    assert.equal(
      hubSocketPath("", { ...env, CUDA_IPC_SOCKET: "" }),
      runtime.file(join("cuda-ipc", "hub.sock")),
    );
    assert.equal(hubSocketPath(undefined, {}), join(tmpdir(), `cuda-ipc-${ownUid()}`, "hub.sock"));
  });

  it("ignores an XDG_RUNTIME_DIR that is relative or missing", () => {
    const inTemporary = join(tmpdir(), `cuda-ipc-${ownUid()}`, "hub.sock");
    for (const folder of ["relative", "/nowhere/at/all", ""]) {
      assert.equal(hubSocketPath(undefined, { XDG_RUNTIME_DIR: folder }), inTemporary);
    }
  });

  const skipUnlessRoot = ownUid() !== 0 && "only root can give a folder away";
  it("ignores an XDG_RUNTIME_DIR of another user", { skip: skipUnlessRoot }, () => {
    using runtime = new TestFolder();
    const env = { XDG_RUNTIME_DIR: runtime.path };
    assert.equal(hubSocketPath(undefined, env), runtime.file("cuda-ipc/hub.sock"));
    chownSync(runtime.path, 12_345, 12_345);
    const inTemporary = join(tmpdir(), `cuda-ipc-${ownUid()}`, "hub.sock");
    assert.equal(hubSocketPath(undefined, env), inTemporary);
  });

  it("refuses a path over the system's limit before it creates anything", () => {
    using folder = new TestFolder();
    const path = folder.file(join("new", "x".repeat(110)));
    assert.throws(
      () => hubSocketPath(path),
      (error) => hasCode(error, "SOCKET_PATH_TOO_LONG"),
    );
    assert.equal(existsSync(folder.file("new")), false);
  });
});

describe("hubSocketPath of a URL", () => {
  it("is refused, from the argument and from CUDA_IPC_SOCKET", () => {
    for (const url of ["tcp://10.0.0.1:7000", "unix:///run/hub.sock", "HTTP://x"])
      for (const attempt of [
        () => hubSocketPath(url, {}),
        () => hubSocketPath(undefined, { CUDA_IPC_SOCKET: url }),
        () => runtimeSocketPath("offer.sock", { CUDA_IPC_SOCKET: url }),
      ])
        assert.throws(attempt, { code: "UNSUPPORTED", message: /it is a URL$/, remedy: /path of/ });
    assert.equal(hubSocketPath("/tmp/a://b", {}), "/tmp/a:/b");
  });
});

describe("runtimeSocketPath", () => {
  it("is in the hub's folder, or in the user's own if the hub serves several users", () => {
    using folder = new TestFolder();
    using runtime = new TestFolder();
    const env = { CUDA_IPC_SOCKET: folder.socket, XDG_RUNTIME_DIR: runtime.path };
    assert.equal(runtimeSocketPath("x.sock", env), folder.file("x.sock"));
    const missing = { ...env, CUDA_IPC_SOCKET: folder.file("new/hub.sock") };
    assert.equal(runtimeSocketPath("x.sock", missing), folder.file("new/x.sock"));
    chmodSync(folder.path, 0o755);
    assert.equal(runtimeSocketPath("x.sock", env), runtime.file("cuda-ipc/x.sock"));
    chmodSync(folder.path, 0o777);
    assert.equal(runtimeSocketPath("x.sock", env), folder.file("x.sock"));
    chmodSync(folder.path, 0o700);
    if (ownUid() !== 0) return;
    chownSync(folder.path, 12345, 12345);
    assert.equal(runtimeSocketPath("x.sock", env), runtime.file("cuda-ipc/x.sock"));
  });
});

describe("prepareRuntimeFolder", () => {
  checkLeaks();

  for (const mask of [0, 0o777]) {
    it(`creates a missing folder that only this user can use, with umask ${mask.toString(8)}`, () => {
      using folder = new TestFolder();
      const socketPath = folder.file("one/two/hub.sock");
      const umask = process.umask(mask);
      try {
        assert.equal(checkRuntimeFolder(socketPath), false);
        prepareRuntimeFolder(socketPath);
      } finally {
        process.umask(umask);
      }
      assert.ok(checkRuntimeFolder(socketPath));
      assert.equal(statSync(folder.file("one/two")).mode & 0o777, 0o700);
      assert.equal(statSync(folder.file("one")).mode & 0o777, 0o700);
    });
  }

  it("refuses a folder that others may read or write", () => {
    using folder = new TestFolder();
    for (const mode of [0o755, 0o710, 0o770, 0o702]) {
      chmodSync(folder.path, mode);
      assertUnsafe(folder.socket, new RegExp(`its mode is 0${mode.toString(8)}`));
    }
  });

  it("refuses the folder for temporary files itself", { skip: tmpdir() !== "/tmp" }, () => {
    assertUnsafe("/tmp/hub.sock", /its mode is|belongs to/);
  });

  it("refuses a link to a folder, and a link to nothing", () => {
    using folder = new TestFolder();
    mkdirSync(folder.file("real"), { mode: 0o700 });
    symlinkSync(folder.file("real"), folder.file("link"));
    symlinkSync(folder.file("nothing"), folder.file("dangling"));
    assertUnsafe(folder.file("link/hub.sock"), /it is a symbolic link/);
    assertUnsafe(folder.file("dangling/hub.sock"), /it is a symbolic link/);
  });

  it("refuses a file instead of a folder", () => {
    using folder = new TestFolder();
    writeFileSync(folder.file("file"), "");
    assertUnsafe(folder.file("file/hub.sock"), /it is not a folder/);
  });

  it("refuses the folder of another user", {
    skip: ownUid() !== 0 && "only root can give a folder away",
  }, () => {
    using folder = new TestFolder();
    chownSync(folder.path, 12345, 12345);
    assertUnsafe(folder.socket, /it belongs to user 12345/);
  });
});

describe("prepareCommonFolder", () => {
  checkLeaks();

  const isUnsafe = (reason: RegExp) => (error: unknown) =>
    hasCode(error, "UNSAFE_RUNTIME_DIR") && reason.test((error as Error).message);

  it("creates a missing folder that others may enter but not write to, whatever the umask", () => {
    using folder = new TestFolder();
    const socketPath = folder.file("one/hub.sock");
    const umask = process.umask(0o077);
    try {
      assert.equal(prepareCommonFolder(socketPath, false), false);
      assert.ok(prepareCommonFolder(socketPath));
    } finally {
      process.umask(umask);
    }
    assert.equal(statSync(folder.file("one")).mode & 0o777, 0o755);
    assert.throws(() => prepareCommonFolder(folder.file("no/such/hub.sock")), /ENOENT/);
  });

  it("accepts only folders that nobody else can write to", () => {
    using folder = new TestFolder();
    for (const mode of [0o700, 0o750, 0o755, 0o711]) {
      chmodSync(folder.path, mode);
      assert.ok(prepareCommonFolder(folder.socket));
    }
    for (const mode of [0o775, 0o757, 0o720, 0o1777]) {
      chmodSync(folder.path, mode);
      assert.throws(() => prepareCommonFolder(folder.socket), isUnsafe(/its mode is/));
    }
    chmodSync(folder.path, 0o755);
    symlinkSync(folder.path, folder.file("link"));
    assert.throws(
      () => prepareCommonFolder(folder.file("link/hub.sock")),
      isUnsafe(/symbolic link/),
    );
  });

  it("accepts only the folder of a trusted user", {
    skip: ownUid() !== 0 && "only root can give a folder away",
  }, () => {
    using folder = new TestFolder();
    chmodSync(folder.path, 0o755);
    chownSync(folder.path, 12345, 12345);
    assert.throws(
      () => prepareCommonFolder(folder.socket),
      isUnsafe(/it belongs to user 12345; wanted a folder of user 0 /),
    );
    assert.ok(checkCommonFolder(folder.socket, new Set([0, 12345])));
    assert.throws(
      () => checkCommonFolder(folder.socket, new Set([0, 12346])),
      isUnsafe(/belongs to user 12345/),
    );
  });
});
