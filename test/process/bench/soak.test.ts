/** Runs a short soak, checks its report, and shows that each of its checks can fail. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { ClientProcess, ranMs } from "../../../bench/soak/client-process.js";
import { contentOf, faultOf } from "../../../bench/soak/content.js";
import { type ClientLine, Tally } from "../../../bench/soak/tally.js";
import {
  judge,
  RSS_GROWTH_MIB_MAX,
  type SoakFindings,
  type SoakSample,
} from "../../../bench/soak/verdict.js";
import { CudaIpcError } from "../../../src/base/errors.js";
import { connect } from "../../../src/index.js";
import { checkLeaks } from "../../support/leak-check.js";
import { skipUnlessRoot } from "../../support/other-user.js";
import { TestFolder } from "../../support/test-folder.js";
import { soon } from "../../support/until.js";

const main = fileURLToPath(new URL("../../../bench/soak/main.js", import.meta.url));

function runSoak(...args: string[]) {
  using folder = new TestFolder();
  const out = folder.file("report.json");
  const all = [main, "--minutes", "0.08", "--seed", "7", "--load", "0.34", "--out", out, ...args];
  const { status, stderr } = spawnSync(process.execPath, all, {
    encoding: "utf8",
    timeout: 120_000,
  });
  return { status, stderr, report: JSON.parse(readFileSync(out, "utf8")) };
}

describe("the soak", () => {
  checkLeaks();

  it("runs for some seconds, ends as it began, and reports what it did", () => {
    const { status, stderr, report } = runSoak();
    assert.deepEqual([status, report.verdict, report.wrong], [0, "passed", []], stderr);
    assert.deepEqual(
      [report.seed, report.load, report.killHub, report.hubKills],
      [7, 0.34, false, 0],
    );
    assert.ok(report.samples.length > 0);
    assert.ok(
      report.end.fds <= report.begin.fds,
      `${report.begin.fds} and ${report.end.fds} descriptors`,
    );
    for (const what of ["memoryFiles", "objects", "leases", "memoryFilesOfAll"]) {
      assert.equal(report.end[what], report.begin[what], what);
    }
    assert.ok(report.operations["open array"] > 0);
  });

  it("kills the hub and its keeper, and has another user attack", { skip: skipUnlessRoot }, () => {
    const { status, stderr, report } = runSoak("--kill-hub", "--attack", "--minutes", "0.3");
    assert.deepEqual([status, report.verdict, report.wrong], [0, "passed", []], stderr);
    assert.ok(report.hubKills > 0, "no hub was killed");
    assert.ok(Object.keys(report.attacks).length > 0, "nobody attacked");
  });

  it("refuses an option that is not a number", () => {
    const { status, stderr } = spawnSync(process.execPath, [main, "--load", "much"], {
      encoding: "utf8",
    });
    assert.deepEqual([status, stderr], [2, "--load must be a number above 0, not much\n"]);
  });

  it("has clients that report incomplete data", async () => {
    await using folder = new TestFolder();
    const { socket } = folder;
    await using hub = await connect({ socket, device: "host" });
    for (let index = 0; index < 24; index += 1) {
      const array = await hub.create(`array-${index}`, { dtype: "uint32", shape: [64] });
      const content = contentOf(index, 64);
      content[63] = 1;
      await array.write(content);
      await array.publish();
    }
    const order = {
      socket,
      seed: 1,
      hubIdleMs: 1000,
      pauseMs: 1,
      operationMs: 5000,
      service: "soak-service-0",
    };
    let client: ClientProcess | undefined;
    try {
      const fault = new Promise<string>((resolve) => {
        client = new ClientProcess(order, (line) => line.kind === "fault" && resolve(line.fault));
      });
      assert.match(
        await soon("a fault is told", fault),
        /^"array-\d+": its checksum is \d+, that of its words \d+$/,
      );
    } finally {
      client?.kill();
      await client?.ended;
    }
  });
});

describe("the contents of the soak", () => {
  it("reveal any changed word", () => {
    const content = contentOf(5, 16);
    assert.equal(faultOf(content), undefined);
    assert.equal(faultOf(content, 5), undefined);
    assert.match(faultOf(content, 6) ?? "", /generation 5, wanted 6/);
    for (let index = 0; index < 16; index += 1) {
      const spoiled = content.slice();
      spoiled[index] = (spoiled[index] ?? 0) ^ 1;
      assert.notEqual(faultOf(spoiled), undefined, `word ${index}`);
    }
    const torn = contentOf(6, 16);
    torn.set(content.subarray(0, 8));
    assert.notEqual(faultOf(torn), undefined, "half of another generation");
  });
});

describe("the tally of a client", () => {
  const attempt = async (code: "HUB_GONE" | "NOT_FOUND") => {
    const lines: ClientLine[] = [];
    const tally = new Tally(5000, (line) => lines.push(line));
    await tally.attempt("open", ["NOT_FOUND"], () => {
      throw new CudaIpcError(code, "so it is");
    });
    tally.flush();
    return { kinds: lines.map(({ kind }) => kind), hubGone: tally.hubGone };
  };

  it("counts expected errors, and reports others as faults", async () => {
    assert.deepEqual(await attempt("NOT_FOUND"), { kinds: ["counts"], hubGone: false });
    assert.deepEqual(await attempt("HUB_GONE"), { kinds: ["fault"], hubGone: true });
  });

  it("leaves out the time while a process was stopped", () => {
    const late = { operation: "open", startMs: 1000, endMs: 9000, limitMs: 5000 };
    assert.equal(ranMs(late, []), 8000);
    assert.equal(ranMs(late, [{ fromMs: 500, toMs: 2000 }]), 7000);
    assert.equal(ranMs(late, [{ fromMs: 2000, toMs: Number.POSITIVE_INFINITY }]), 1000);
    assert.equal(ranMs(late, [{ fromMs: 0, toMs: 500 }]), 8000);
  });
});

describe("the verdict of the soak", () => {
  const begin: SoakSample = {
    atSeconds: 1,
    pid: 1,
    fds: 20,
    fdKinds: { socket: 20 },
    memoryFiles: 0,
    rssMiB: 50,
    objects: 0,
    leases: 0,
    clients: 1,
    waitingOpens: 0,
    clientProcesses: 0,
    memoryFilesOfAll: 0,
  };
  const counts = { "create array": 1, "open array": 1, check: 1, close: 1 };
  const good: SoakFindings = {
    hubKills: 0,
    keeperKills: 0,
    attacks: undefined,
    counts,
    begin,
    end: { ...begin, atSeconds: 9 },
    faults: [],
  };

  it("is good if the end equals the beginning", () => {
    assert.deepEqual(judge(good), []);
  });

  const { atSeconds: _, pid: __, rssMiB: ___, fdKinds: ____, ...same } = begin;
  for (const what of Object.keys(same) as (keyof typeof same)[]) {
    it(`finds ${what} that are not given back`, () => {
      const end = { ...begin, [what]: begin[what] + 1 };
      assert.deepEqual(judge({ ...good, end }), [
        `${what}: ${begin[what]} at the beginning, ${begin[what] + 1} at the end`,
      ]);
    });
  }

  it("allows an attacked hub the descriptors of the processes that write for it, and no more", () => {
    const found = [4, 5].map((more) => {
      const end = { ...begin, fds: begin.fds + more };
      return judge({ ...good, attacks: { churn: 1 }, end });
    });
    assert.deepEqual(found, [[], ["fds: 20 at the beginning, 25 at the end"]]);
  });

  for (const what of ["memoryFiles", "objects", "leases", "memoryFilesOfAll"] as const) {
    it(`finds ${what} that the warm-up left behind`, () => {
      const early = { ...begin, [what]: 1 };
      assert.deepEqual(judge({ ...good, begin: early, end: early }), [
        `${what}: 1 at the beginning, wanted none`,
      ]);
    });
  }

  it("finds grown memory, faults of clients, and a run that did nothing", () => {
    const grown = { ...begin, rssMiB: begin.rssMiB + RSS_GROWTH_MIB_MAX + 1 };
    assert.match(
      judge({ ...good, end: grown }).join(),
      /^rssMiB: grown by 65\.0 MiB, wanted at most 64 MiB$/,
    );
    assert.deepEqual(judge({ ...good, faults: ["data"] }), ["data"]);
    assert.equal(judge({ ...good, counts: {} }).length, 4);
    assert.deepEqual(judge({ ...good, attacks: {} }), ["nothing was shown: nobody attacked"]);
  });
});
