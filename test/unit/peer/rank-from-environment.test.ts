import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { ErrorCode } from "../../../src/base/error-codes.js";
import { hasCode } from "../../../src/base/errors.js";
import { rankFromEnvironment } from "../../../src/peer/rank-from-environment.js";

const open = (rank: string, size?: string) => ({
  OMPI_COMM_WORLD_RANK: rank,
  ...(size === undefined ? {} : { OMPI_COMM_WORLD_SIZE: size }),
});
const pmi = (rank: string, size: string) => ({ PMI_RANK: rank, PMI_SIZE: size });
const slurm = (rank: string, size: string) => ({ SLURM_PROCID: rank, SLURM_NTASKS: size });

function refuses(env: NodeJS.ProcessEnv, code: ErrorCode, words: RegExp): void {
  assert.throws(
    () => rankFromEnvironment(env),
    (error: unknown) => hasCode(error, code) && words.test(error.message),
  );
}

describe("rankFromEnvironment", () => {
  it("reads the variables of Open MPI, MPICH and Slurm", () => {
    for (const launcher of [open, pmi, slurm]) {
      assert.deepEqual(rankFromEnvironment(launcher("0", "1")), { rank: 0, size: 1 });
      assert.deepEqual(rankFromEnvironment(launcher("3", "4")), { rank: 3, size: 4 });
      assert.deepEqual(rankFromEnvironment(launcher("255", "256")), { rank: 255, size: 256 });
    }
  });

  it("reads the environment of this process by default", () => {
    for (const name of ["OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"])
      assert.equal(process.env[name], undefined, `run the tests without ${name}`);
    assert.throws(() => rankFromEnvironment(), { code: "NO_RANK" });
    Object.assign(process.env, pmi("1", "2"));
    try {
      assert.deepEqual(rankFromEnvironment(), { rank: 1, size: 2 });
    } finally {
      for (const name of Object.keys(pmi("", ""))) delete process.env[name];
    }
  });

  it("reads Slurm's variables only if no MPI launcher has set its own", () => {
    const inJob = slurm("0", "1");
    assert.deepEqual(rankFromEnvironment({ ...inJob, ...open("3", "4") }), { rank: 3, size: 4 });
    assert.deepEqual(rankFromEnvironment({ ...inJob, ...pmi("3", "4") }), { rank: 3, size: 4 });
  });

  it("accepts two MPI launchers that agree, and refuses two that contradict each other", () => {
    assert.deepEqual(rankFromEnvironment({ ...open("1", "2"), ...pmi("1", "2") }), {
      rank: 1,
      size: 2,
    });
    const words =
      /: OMPI_COMM_WORLD_RANK says 1 of 2, and PMI_RANK says 0 of 2\. Unset what is left of/;
    refuses({ ...open("1", "2"), ...pmi("0", "2") }, "INVALID_RANK", words);
    refuses({ ...open("1", "2"), ...pmi("1", "3") }, "INVALID_RANK", /says 1 of 3/);
  });

  it("throws NO_RANK if no variable has a rank, and names them", () => {
    const words = /none of OMPI_COMM_WORLD_RANK, PMI_RANK, SLURM_PROCID is set\. Start it with/;
    refuses({}, "NO_RANK", words);
    refuses(open("", "4"), "NO_RANK", words);
    // An interactive shell of Slurm has a number of tasks, and no rank.
    refuses({ SLURM_NTASKS: "4" }, "NO_RANK", words);
  });

  it("throws INVALID_RANK if the size is missing", () => {
    const words = /: OMPI_COMM_WORLD_SIZE is not set, wanted an integer from 1 to 256\. /;
    refuses(open("0"), "INVALID_RANK", words);
    refuses(open("0", ""), "INVALID_RANK", words);
  });

  it("throws INVALID_RANK if the rank is out of range", () => {
    refuses(pmi("4", "4"), "INVALID_RANK", /: PMI_RANK is "4", wanted an integer from 0 to 3\. /);
    refuses(pmi("-1", "4"), "INVALID_RANK", /: PMI_RANK is "-1", wanted/);
    refuses(slurm("0", "0"), "INVALID_RANK", /: SLURM_NTASKS is "0", wanted/);
    refuses(slurm("0", "257"), "INVALID_RANK", /: SLURM_NTASKS is "257", wanted/);
  });

  it("throws INVALID_RANK if a value is not a decimal integer", () => {
    for (const text of ["x", "1.5", "1e0", "0x1", " 1", "1 ", "+1", "٣", "NaN"]) {
      refuses(pmi(text, "4"), "INVALID_RANK", /: PMI_RANK is "/);
      refuses(pmi("0", text), "INVALID_RANK", /: PMI_SIZE is "/);
    }
  });
});
