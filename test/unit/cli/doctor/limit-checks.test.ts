import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import { limitChecks } from "../../../../src/cli/doctor/limit-checks.js";
import { surroundingsOf, wordsOf } from "./made-surroundings.js";

function told(t: TestContext, files: Readonly<Record<string, string>>, name: string): string {
  return wordsOf(limitChecks(surroundingsOf(t, { files })), name);
}

function limits(files: string, locked: string): Readonly<Record<string, string>> {
  const text = [
    "Limit                     Soft Limit           Hard Limit           Units     ",
    `Max open files            ${files}                 4096                 files     `,
    `Max locked memory         ${locked}              8388608              bytes     `,
  ];
  return { "/proc/self/limits": text.join("\n") };
}

describe("limit checks", () => {
  it("prints the limit of open files, and what to do if it is low", (t) => {
    assert.match(
      told(t, limits("1024", "0"), "open files"),
      /^this process may have 1024\neach array[^\n]+$/,
    );
    assert.match(
      told(t, limits("256", "0"), "open files"),
      /^this process may have 256\n[\s\S]*to do: Raise the limit with ulimit -n/,
    );
    assert.doesNotMatch(told(t, limits("unlimited", "0"), "open files"), /to do/);
    assert.match(told(t, {}, "open files"), /^the limit cannot be read/);
  });

  it("prints the limit of locked memory", (t) => {
    assert.match(
      told(t, limits("1024", "8388608"), "locked memory"),
      /^limit: 8 MiB\n.*\(not tried\)$/,
    );
    assert.match(told(t, limits("1024", "unlimited"), "locked memory"), /^limit: unlimited$/m);
    assert.match(told(t, {}, "locked memory"), /^the limit cannot be read/);
  });

  it("prints how much asynchronous I/O is left, and what to do if little is", (t) => {
    const sysctl = (used: number) => ({
      "/proc/sys/fs/aio-nr": `${used}\n`,
      "/proc/sys/fs/aio-max-nr": "65536\n",
    });
    assert.equal(told(t, sysctl(12), "asynchronous I/O"), "12 of 65536 events are taken");
    assert.match(
      told(t, sysctl(65_530), "asynchronous I/O"),
      /^65530 of 65536 events are taken\nchannels wake[^\n]*\n.*to do: Raise the limit: sysctl/,
    );
    assert.match(told(t, {}, "asynchronous I/O"), /^the limit cannot be read\n/);
  });

  it("mentions memfd_noexec only if it forbids something", (t) => {
    const sysctl = (value: string) => ({ "/proc/sys/vm/memfd_noexec": `${value}\n` });
    for (const files of [{}, sysctl("0"), sysctl("1")])
      assert.equal(told(t, files, "memfd_noexec"), "");
    assert.match(
      told(t, sysctl("2"), "memfd_noexec"),
      /^2: .*\ncuda-ipc creates them with MFD_NOEXEC_SEAL.*EACCES$/,
    );
  });
});
