/**
 * The demos whose ranks a launcher starts. A stand-in sets the variables that Slurm, Open MPI and
 * MPICH set. A real mpirun is used if there is one.
 */
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { someOf } from "../../support/random.js";
import { CliRig, type Outcome } from "./cli-rig.js";
import { assertNothingLeft } from "./demo-rig.js";

type Variables = Readonly<Record<string, string>>;

const launchers: Readonly<Record<string, (rank: number, size: number) => Variables>> = {
  "Open MPI": (rank, size) => ({
    OMPI_COMM_WORLD_RANK: `${rank}`,
    OMPI_COMM_WORLD_SIZE: `${size}`,
    PMIX_NAMESPACE: "prterun-host.example.org-4711@1",
  }),
  "Open MPI in a Slurm job": (rank, size) => ({
    SLURM_PROCID: "0",
    SLURM_NTASKS: "1",
    SLURM_JOB_ID: "17",
    OMPI_COMM_WORLD_RANK: `${rank}`,
    OMPI_COMM_WORLD_SIZE: `${size}`,
    OMPI_MCA_ess_base_jobid: "1234567",
  }),
  Slurm: (rank, size) => ({
    SLURM_PROCID: `${rank}`,
    SLURM_NTASKS: `${size}`,
    SLURM_JOB_ID: "17",
    SLURM_STEP_ID: "3",
  }),
};
const mpich = (rank: number, size: number) => ({ PMI_RANK: `${rank}`, PMI_SIZE: `${size}` });

/** Starts `cuda-ipc demo` with the variables of each rank. */
function launch(rig: CliRig, ranks: readonly Variables[], ...args: string[]): Promise<Outcome[]> {
  const { env } = rig;
  const started = ranks.map((variables) => {
    Object.assign(rig, { env: { ...env, ...variables } });
    return rig.run("demo", ...args, "--elements", "100");
  });
  Object.assign(rig, { env });
  return Promise.all(started);
}

const ranksOf = (size: number, variables: (rank: number, size: number) => Variables) =>
  Array.from({ length: size }, (_, rank) => variables(rank, size));

function assertEachRankDone(outcomes: readonly Outcome[]): void {
  for (const [rank, { code, stdout, stderr }] of outcomes.entries()) {
    assert.deepEqual([code, stderr], [0, ""]);
    assert.match(
      stdout,
      new RegExp(`^ +\\d+ {2}rank ${rank} on host: .+every element verified$`, "m"),
    );
    assert.equal([...stdout.matchAll(/^ +\d+ {2}/gm)].length, 1, stdout);
  }
}

describe("a demo whose ranks a launcher starts", () => {
  for (const [launcher, variables] of someOf(Object.entries(launchers), 1)) {
    it(`exchange and simple-ipc run as the ranks of ${launcher}`, async () => {
      await using rig = await CliRig.open();
      assertEachRankDone(await launch(rig, ranksOf(4, variables), "exchange"));
      assertEachRankDone(await launch(rig, ranksOf(3, variables), "simple-ipc"));
      await assertNothingLeft(rig);
    });
  }

  it("takes the name of the group as an argument, for a launcher that names no job", async () => {
    await using rig = await CliRig.open();
    assertEachRankDone(await launch(rig, ranksOf(2, mpich), "exchange", "rank", "mine"));
    const [outcome] = await launch(rig, ranksOf(2, mpich).slice(0, 1), "exchange");
    assert.equal(outcome?.code, 2);
    assert.match(
      outcome.stderr,
      /^error\[USAGE\]: the launcher does not name its job, .+ rank NAME\./,
    );
    await assertNothingLeft(rig);
  });

  it("refuses a rank that is there twice", async () => {
    await using rig = await CliRig.open();
    const [zero, one, two] = ranksOf(3, mpich) as [Variables, Variables, Variables];
    const start = (rank: Variables) => launch(rig, [rank], "simple-ipc", "rank", "mine");
    const twice = [start(one), start(one)];
    const others = [start(zero), ...twice];
    // Once all ranks are there the group is complete, and a late one finds nothing to join.
    const [refused] = await Promise.race(twice);
    const outcomes = (await Promise.all([...others, start(two)])).flat();
    assert.match(refused?.stderr ?? "", /^error\[NAME_TAKEN\]: .+process \d+ is rank 1\./);
    assert.equal(outcomes.filter(({ code }) => code !== 0).length, 1, JSON.stringify(outcomes));
    await assertNothingLeft(rig);
  });

  it("names the rank that is missing", async () => {
    await using rig = await CliRig.open();
    const [zero, one] = ranksOf(3, mpich) as [Variables, Variables];
    for (const { code, stderr } of await launch(rig, [zero, one], "simple-ipc", "rank", "mine")) {
      assert.equal(code, 1);
      assert.match(stderr, /^error\[(TIMEOUT|BARRIER_BROKEN)\]: /);
      if (stderr.includes("TIMEOUT"))
        assert.match(stderr, /have not joined: (rank 1, )?rank 2|waits for other/);
    }
    await assertNothingLeft(rig);
  });

  it("refuses a rank that is out of range, and a number of ranks that does not fit", async () => {
    await using rig = await CliRig.open();
    const [outOfRange] = await launch(rig, [mpich(4, 4)], "exchange", "rank", "mine");
    assert.equal(outOfRange?.code, 1);
    assert.match(
      outOfRange.stderr,
      /^error\[INVALID_RANK\]: .+PMI_RANK is "4", wanted .+ 0 to 3\./,
    );
    const [without] = await launch(rig, [mpich(4, 4)], "exchange");
    assert.match(without?.stderr ?? "", /^error\[INVALID_RANK\]: /);
    const [odd] = await launch(rig, [mpich(0, 3)], "exchange", "rank", "mine");
    assert.equal(odd?.code, 2);
    assert.match(odd.stderr, /the number of ranks must be even: 3 ranks do not make pairs/);
    assert.match(
      await rig.fails("NO_RANK", "demo", "exchange", "rank", "mine"),
      /none of OMPI_COMM_WORLD_RANK, .+ is set/,
    );
    await assertNothingLeft(rig);
  });

  const version = spawnSync("mpirun", ["--version"], { encoding: "utf8" });
  const skip = version.status === 0 ? false : "needs mpirun";
  it("exchange runs under the mpirun of this machine", { skip }, async () => {
    await using rig = await CliRig.open();
    const command = fileURLToPath(new URL("../../../src/cli/launch.cjs", import.meta.url));
    const isOpenMpi = version.stdout.includes("Open MPI");
    const child = spawn(
      "mpirun",
      [
        ...(isOpenMpi ? ["--allow-run-as-root", "--oversubscribe"] : []),
        ...["-n", "2", process.execPath, command, "demo", "exchange", "rank", "mine", "-n", "100"],
      ],
      { env: rig.env, timeout: 60_000 },
    );
    let text = "";
    for (const stream of [child.stdout, child.stderr])
      stream.on("data", (part) => {
        text += part;
      });
    const [code] = await once(child, "close");
    assert.equal(code, 0, text);
    for (const rank of [0, 1]) assert.match(text, new RegExp(`rank ${rank} on host: .+verified`));
  });
});
