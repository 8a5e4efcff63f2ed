import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import { isolationChecks } from "../../../../src/cli/doctor/isolation-checks.js";
import { surroundingsOf, wordsOf } from "./made-surroundings.js";

const MIB = 1024 * 1024;
const FIRST = { "/proc/self/ns/pid": "pid:[4026531836]" };
const OTHER = { "/proc/self/ns/pid": "pid:[4026532450]" };

function told(t: TestContext, made: Parameters<typeof surroundingsOf>[1], name: string): string {
  return wordsOf(isolationChecks(surroundingsOf(t, made)), name);
}

describe("isolation checks: container", () => {
  it("reports no sign of a container", (t) => {
    const files = { "/proc/self/cgroup": "0::/user.slice/session.scope\n" };
    assert.equal(
      told(t, { links: FIRST, files }, "container"),
      "no sign of one; in the first PID namespace of this kernel",
    );
  });

  it("calls a namespace unknown if it cannot be read", (t) => {
    assert.equal(told(t, {}, "container"), "no sign of one; in an unknown PID namespace");
  });

  const signs: readonly [string, Parameters<typeof surroundingsOf>[1]][] = [
    ["/.dockerenv", { files: { "/.dockerenv": "" } }],
    ["/run/.containerenv", { files: { "/run/.containerenv": "" } }],
    ["container=podman", { env: { container: "podman" } }],
    ["Kubernetes", { env: { KUBERNETES_SERVICE_HOST: "10.0.0.1" } }],
    ["cgroup of kubepods", { files: { "/proc/self/cgroup": "0::/kubepods/pod7\n" } }],
  ];
  for (const [sign, made] of signs) {
    it(`recognises one by ${sign}, and says what it means for each mechanism`, (t) => {
      const words = told(t, { links: FIRST, ...made }, "container");
      assert.ok(words.startsWith(`this looks like one (${sign}); `), words);
      assert.match(words, /^memory files, VMM and pools travel .*mount its folder/m);
      assert.match(
        words,
        /^legacy memory handles: the two processes must have different PIDs, each in its own namespace.*$/m,
      );
      assert.match(words, /^interprocess events: .*\/dev\/shm.*\(not tried\)$/m);
    });
  }

  it("recognises a PID namespace by its inode, and prints the PID in it", (t) => {
    const files = { "/proc/self/status": "Name:\tnode\nNSpid:\t812\t7\nSeccomp:\t0\n" };
    const words = told(t, { links: OTHER, files }, "container");
    assert.match(words, /^no sign of one; in a PID namespace of its own$/m);
    assert.match(words, /; this process has PID 7$/m);
  });

  it("recognises a PID namespace by several NSpid numbers", (t) => {
    const files = { "/proc/self/status": "NSpid:\t812\t7\n" };
    assert.match(told(t, { files }, "container"), /in a PID namespace of its own/);
  });
});

describe("isolation checks: /dev/shm", () => {
  const space = { totalBytes: 8192 * MIB, freeBytes: 4096 * MIB, writable: true };

  it("prints the free space, and what needs it", (t) => {
    const words = told(t, { shm: space }, "/dev/shm");
    assert.match(words, /^4 GiB of 8 GiB free$/m);
    assert.match(words, /only interprocess events need it; memory files are not stored there/);
    assert.doesNotMatch(words, /to do|64 MiB/);
  });

  it("recognises the small default of a container", (t) => {
    assert.match(
      told(t, { shm: { ...space, totalBytes: 64 * MIB } }, "/dev/shm"),
      /default of a container \(64 MiB\)/,
    );
  });

  it("says what to do if it is full, not writable or missing", (t) => {
    assert.match(
      told(t, { shm: { ...space, freeBytes: 4096 } }, "/dev/shm"),
      /^to do: Run ls -l \/dev\/shm to see what fills it/m,
    );
    assert.match(
      told(t, { shm: { ...space, writable: false } }, "/dev/shm"),
      /not writable.*[\s\S]*to do: To use interprocess events/,
    );
    assert.match(
      told(t, {}, "/dev/shm"),
      /^does not exist$[\s\S]*^to do: To use interprocess events/m,
    );
  });
});

describe("isolation checks: ptrace and seccomp", () => {
  const scope = (value: string) => ({
    files: { "/proc/sys/kernel/yama/ptrace_scope": `${value}\n` },
  });

  it("says that ptrace does not matter here, but to PyTorch", (t) => {
    assert.match(
      told(t, scope("0"), "ptrace scope"),
      /^0, processes of one user may[^\n]+\nthis does not matter here[^\n]+$/,
    );
    assert.match(
      told(t, scope("1"), "ptrace scope"),
      /^1, .*only its descendants\nthis does not matter here.*\nPyTorch/,
    );
    assert.match(told(t, scope("9"), "ptrace scope"), /^9, unknown to this program/);
    assert.match(
      told(t, {}, "ptrace scope"),
      /^unknown; the kernel may lack Yama\nthis does not matter here/,
    );
  });

  it("mentions seccomp only if a filter is set", (t) => {
    const status = (mode: number) => ({
      files: { "/proc/self/status": `Name:\tnode\nSeccomp:\t${mode}\nSpeculation:\tx\n` },
    });
    assert.equal(told(t, status(0), "seccomp"), "");
    assert.equal(told(t, {}, "seccomp"), "");
    assert.match(
      told(t, status(2), "seccomp"),
      /^a filter of system calls is set\n[\s\S]*pidfd_getfd[\s\S]*cuda-uvmfd/,
    );
    assert.match(told(t, status(1), "seccomp"), /^mode 1 is set/);
  });
});
