import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { hasFasterNetwork, tuneForTcp } from "../../../src/ucx/ucx-tuning.js";

const UCS_OK = 0;
const UCS_ERR_NO_ELEM = -12;

describe("UCX's settings for TCP", () => {
  function tuned(env: NodeJS.ProcessEnv, answer: (name: string) => number): string[] {
    const names: string[] = [];
    const ucp_config_modify = (_: bigint, name: string) => {
      names.push(name);
      return answer(name);
    };
    tuneForTcp({ ucp_config_modify }, 1n, env);
    return names;
  }

  it("leave alone what the environment sets", () => {
    const all = tuned({}, () => UCS_OK);
    assert.deepEqual(all, ["RNDV_THRESH", "ZCOPY_THRESH", "TCP_RX_SEG_SIZE"]);
    assert.deepEqual(
      tuned({ UCX_RNDV_THRESH: "64K" }, () => UCS_OK),
      all.slice(1),
    );
  });

  it("are none for a version that lacks one of them", () => {
    assert.deepEqual(
      tuned({}, () => UCS_ERR_NO_ELEM),
      ["RNDV_THRESH"],
    );
  });

  it("are for machines without a faster network", () => {
    assert.equal(
      hasFasterNetwork(["self/memory", "tcp/lo", "posix/memory", "cuda_copy/cuda"]),
      false,
    );
    assert.equal(hasFasterNetwork(["tcp/eth0", "rc_mlx5/mlx5_0:1"]), true);
    assert.equal(hasFasterNetwork(["ud_verbs/rxe0:1"]), true);
  });
});
