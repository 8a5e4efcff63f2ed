/** Runs the benchmarks of channels and their comparisons on a small scale, and checks no times. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { chmodSync, existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { idleChannels } from "../../../bench/channel/idle.js";
import { MultiProcessService } from "../../../bench/channel/mps.js";
import { besideTorch, throughStreams } from "../../../bench/channel/on-device.js";
import { channelSections } from "../../../bench/channel/sections.js";
import { messageSizes, readerCounts } from "../../../bench/channel/sizes-and-readers.js";
import { roundTrip, throughput, wake } from "../../../bench/channel/small-messages.js";
import { watchedChannels } from "../../../bench/channel/watched.js";
import type { Row } from "../../../bench/measure.js";
import { checkLeaks } from "../../support/leak-check.js";
import { TestFolder } from "../../support/test-folder.js";
import { until } from "../../support/until.js";

const noCompiler = ["cc", "gcc", "clang"].some(
  (name) => spawnSync(name, ["--version"]).status === 0,
)
  ? false
  : "no C compiler";

/** Checks that every row has a value. Returns the goals that were judged. */
function goals(rows: readonly Row[]): (string | undefined)[] {
  for (const { what, value, missing } of rows)
    assert.ok(Number.isFinite(value), `${what}: ${missing ?? value}`);
  return rows.flatMap(({ goal, met }) => (met === undefined ? [] : [goal]));
}

/** Few messages, but enough for samples of 1024 messages. */
const small = {
  messages: 4096,
  peerMessages: 4096,
  roundTrips: 50,
  peerRoundTrips: 20,
  wakes: 5,
  rounds: 1,
};
const C_GOAL = "ours within 1.5 times C";

describe("the benchmarks of channels", { skip: noCompiler }, () => {
  checkLeaks();

  it("measure messages one way, next to C, zeromq and Node", async () => {
    const rows = await throughput(small);
    assert.deepEqual(goals(rows), ["at least 3 million a second", C_GOAL]);
    assert.match(
      rows.map(({ what }) => what).join("\n"),
      /through a channel\n.*\n.* in C\n.*zeromq.*\n.*json.*\n.*advanced/,
    );
    assert.equal(rows.filter(({ comparedWith }) => comparedWith === "ours").length, 4);
  });

  it("measure round trips, next to C, zeromq and Node", async () => {
    const rows = await roundTrip(small);
    assert.deepEqual(goals(rows), ["under 1 us", C_GOAL]);
    assert.equal(rows.length, 5);
  });

  it("measure how long a reader takes to wake, next to C", async () => {
    assert.deepEqual(goals(await wake(small)), ["under 40 us", C_GOAL]);
  });

  it("measure what diagnostics cost, beside another build", async () => {
    process.env.BEFORE = fileURLToPath(new URL("../../../src/bundled/index.js", import.meta.url));
    try {
      const rows = await watchedChannels({ messages: 4096, rounds: 2 });
      assert.deepEqual(goals(rows), []);
      assert.match(
        rows.map(({ what }) => what).join("\n"),
        /^before \(2 rounds, .*\nnobody subscribes .*\na subscriber of each /,
      );
    } finally {
      delete process.env.BEFORE;
    }
  });

  it("measure messages of several sizes", async () => {
    const rows = await messageSizes({ sizes: [65_536, 2 ** 20], messages: 256, rounds: 1 });
    assert.deepEqual(goals(rows), ["independent of size: at most 2 times 64 KiB"]);
    assert.equal(rows[1]?.ratio, (rows[1]?.value ?? 0) / (rows[0]?.value ?? 0));
  });

  it("measure the cost of more readers, spinning and sleeping", async () => {
    const rows = await readerCounts({ readers: [1, 3], messages: 1024, wakes: 5, rounds: 1 });
    assert.deepEqual(goals(rows), ["under 1 us"]);
    assert.equal(rows.length, 5);
  });

  it("measure the cost of idle channels, which still work afterwards", async () => {
    const rows = await idleChannels({ channels: 2, idleMs: 20 });
    assert.equal(goals(rows).length, 3);
  });

  for (const loop of ["channel-copies", "channel-kernels"] as const) {
    it(`measure ${loop} through streams, beside C, without goals on the host device`, async () => {
      const rows = await throughStreams(loop, "host", { messages: 512, handovers: 0, rounds: 1 });
      assert.deepEqual(goals(rows), []);
      assert.equal(rows[0]?.comparedWith, "C");
    });
  }

  it("say why there are no PyTorch figures", async () => {
    const [ours, theirs] = await besideTorch("host", { messages: 512, handovers: 1, rounds: 1 });
    assert.ok(Number.isFinite(ours?.value));
    assert.deepEqual([theirs?.missing, theirs?.goal], ["needs a GPU", undefined]);
  });

  it("each have a name and a title", () => {
    const sections = channelSections("cuda:0");
    assert.equal(new Set(sections.map(({ key }) => key)).size, sections.length);
    assert.equal(new Set(sections.map(({ title }) => title)).size, sections.length);
  });
});

/**
 * A stand-in for nvidia-cuda-mps-control with an idle daemon.
 * @param obeys true if `quit` ends it
 */
function standIn(folder: string, obeys: boolean): void {
  const script = `#!/bin/sh
name=nvidia-cuda-mps-control
file="$CUDA_MPS_PIPE_DIRECTORY/$name.pid"
if [ "$1" = -d ]; then
  sh -c 'while :; do read -r line < /dev/zero || sleep 1; done' $name-daemon > /dev/null 2>&1 &
  echo $! > "$file"
  exit 0
fi
read -r order
case "$order" in
  get_server_list) echo 4711 ;;
  quit*) ${obeys ? 'kill "$(cat "$file")"' : ":"} ;;
esac
`.replace("read -r line < /dev/zero || sleep 1", "sleep 1");
  writeFileSync(`${folder}/nvidia-cuda-mps-control`, script);
  chmodSync(`${folder}/nvidia-cuda-mps-control`, 0o755);
}

async function withPath<T>(path: string, use: () => Promise<T>): Promise<T> {
  const { PATH } = process.env;
  process.env.PATH = path;
  try {
    return await use();
  } finally {
    process.env.PATH = PATH;
  }
}

const mpsFolders = () => readdirSync(tmpdir()).filter((name) => name.startsWith("cuda-ipc-mps-"));

describe("MPS for a benchmark", () => {
  checkLeaks();

  it("says if there is none, and leaves nothing behind", async () => {
    using folder = new TestFolder();
    const before = mpsFolders();
    await withPath(folder.path, async () =>
      assert.equal(MultiProcessService.start(), "no nvidia-cuda-mps-control"),
    );
    assert.deepEqual(mpsFolders(), before);
  });

  for (const obeys of [true, false]) {
    it(`ends with its scope ${obeys ? "when asked to" : "even if it ignores quit"}`, async () => {
      using folder = new TestFolder();
      standIn(folder.path, obeys);
      await withPath(`${folder.path}:${process.env.PATH}`, async () => {
        const mps = MultiProcessService.start();
        if (typeof mps === "string") assert.fail(mps);
        const listeners = process.listenerCount("SIGTERM");
        const pipes = mps.env.CUDA_MPS_PIPE_DIRECTORY;
        const pid = Number(readFileSync(`${pipes}/nvidia-cuda-mps-control.pid`, "utf8"));
        assert.equal(mps.wasUsed, true);
        assert.ok(existsSync(`/proc/${pid}/exe`));
        mps[Symbol.dispose]();
        await until("the daemon has ended", () => hasEnded(pid));
        assert.equal(existsSync(pipes), false);
        assert.equal(process.listenerCount("SIGTERM"), listeners - 1);
        mps[Symbol.dispose]();
      });
    });
  }
});

function hasEnded(pid: number): boolean {
  try {
    return / Z /.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
  } catch {
    return true;
  }
}
