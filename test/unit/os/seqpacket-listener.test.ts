import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { basename, dirname } from "node:path";
import { createInterface } from "node:readline";
import { describe, it } from "node:test";
import { SystemError } from "../../../src/base/errors.js";
import { limits } from "../../../src/base/limits.js";
import { SeqpacketSocket } from "../../../src/os/seqpacket.js";
import { FOR_ALL, SeqpacketListener } from "../../../src/os/seqpacket-listener.js";
import { checkLeaks } from "../../support/leak-check.js";
import { TestFolder } from "../../support/test-folder.js";

/** Connects to each path as soon as a file is there, and says how that went. */
const EAGER_CLIENT = `
import socket, sys
for path in sys.argv[1:]:
    print("tries", flush=True)
    while True:
        client = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            client.connect(path)
        except FileNotFoundError:
            client.close()
            continue
        except OSError as error:
            print(type(error).__name__, flush=True)
        break
`;

describe("SeqpacketListener", () => {
  checkLeaks();

  it("listens before its file appears", async () => {
    using folder = new TestFolder();
    const paths = Array.from({ length: 200 }, (_, i) => folder.file(`${i}.sock`));
    const client = spawn("python3", ["-c", EAGER_CLIENT, ...paths]);
    const listeners: SeqpacketListener[] = [];
    const lines: string[] = [];
    for await (const line of createInterface({ input: client.stdout })) {
      lines.push(line);
      const path = paths[listeners.length];
      if (line === "tries" && path !== undefined) listeners.push(SeqpacketListener.listen(path));
    }
    for (const listener of listeners) listener.close();
    assert.deepEqual(
      lines,
      paths.map(() => "tries"),
    );
  });

  it("makes its file with the mode that is asked for, whatever the umask", () => {
    using folder = new TestFolder();
    const before = process.umask(0o777);
    try {
      for (const mode of [undefined, FOR_ALL]) {
        const path = folder.file(`${mode}.sock`);
        SeqpacketListener.listen(path, mode === undefined ? {} : { mode }).close();
        assert.equal(statSync(path).mode & 0o777, mode ?? 0o600);
      }
    } finally {
      process.umask(before);
    }
  });

  it("takes a path of the greatest length, with a short name and a long one", () => {
    using folder = new TestFolder();
    const length = limits.socketPathBytesMax - folder.path.length - 1;
    const deep = folder.file("x".repeat(length - "/x".length));
    mkdirSync(deep);
    const short = mkdtempSync("/tmp/");
    const long = `${short}/${"x".repeat(limits.socketPathBytesMax - short.length - 1)}`;
    try {
      for (const path of [`${deep}/x`, long]) {
        const listener = SeqpacketListener.listen(path);
        SeqpacketSocket.connect(path).close();
        listener.close();
        assert.deepEqual(readdirSync(dirname(path)), [basename(path)]);
      }
    } finally {
      rmSync(short, { recursive: true });
    }
  });

  it("replaces what a process left that was killed before it listened, and no other file", () => {
    using folder = new TestFolder();
    const path = folder.file("x.sock");
    SeqpacketListener.listen(`${path}.new`).close();
    SeqpacketListener.listen(path).close();
    for (const name of [path, folder.file("file")]) {
      writeFileSync(folder.file("file"), "precious");
      assert.throws(
        () => SeqpacketListener.listen(name),
        (error) => error instanceof SystemError && error.errnoName === "EADDRINUSE",
      );
    }
  });
});
