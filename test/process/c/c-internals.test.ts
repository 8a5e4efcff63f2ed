/**
 * Parts of the client in C, compared with the library's: its JSON with `JSON.parse`, and how a
 * writer follows a dead one with `succeed`. The sanitizers see each access beyond a text.
 */
import assert from "node:assert/strict";
import { isUtf8 } from "node:buffer";
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { before, describe, it } from "node:test";
import { hasCode } from "../../../src/base/errors.js";
import { control, flags, HEADERS_AT, header } from "../../../src/ring/channel-layout.js";
import { succeed } from "../../../src/ring/ring-succession.js";
import { skipUnlessRoot } from "../../support/other-user.js";
import { nightly, Random, seedOfRun } from "../../support/random.js";
import { RingRig } from "../../support/ring/ring-rig.js";
import { dieAt } from "../../support/ring/shared-accesses.js";
import { CPrograms, skip } from "./c-programs.js";

const ROUNDS = nightly ? 100_000 : 3000;
const META = 64;

describe("the parts of the client in C", { skip }, () => {
  let program: string;
  before(() => {
    program = new CPrograms().including("internals.c");
  });

  function run(args: readonly string[], inputs: readonly Uint8Array[]): unknown[] {
    const input = inputs.map((bytes) => `${Buffer.from(bytes).toString("hex")}\n`).join("");
    const options = { input, encoding: "utf8", maxBuffer: 1 << 30, timeout: 120_000 } as const;
    const { status, stdout, stderr } = spawnSync(program, args, options);
    assert.equal(status, 0, stderr);
    return stdout
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line));
  }

  it("resolves the path of a socket as the others do, and so finds the same twin", () => {
    const { paths } = JSON.parse(readFileSync("docs/protocol/vectors/socket-paths.json", "utf8"));
    const given = paths.map((one: { given: string }) => one.given);
    const found = spawnSync(program, ["paths", ...given], { cwd: "/", encoding: "utf8" });
    assert.equal(found.status, 0, found.stderr);
    assert.deepEqual(
      found.stdout
        .trimEnd()
        .split("\n")
        .map((line) => JSON.parse(line)),
      paths.map(({ path, hash }: { path: string; hash: string }) => [path, hash]),
    );
  });

  describe("its JSON", () => {
    const parse = (...texts: (string | Uint8Array)[]) =>
      run(["json"], texts.map(Buffer.from as (text: string | Uint8Array) => Buffer));
    const strings = (...texts: string[]) => [
      texts.map((text) => Buffer.from(text).toString("hex")),
    ];

    it("has each escape, and no others", () => {
      assert.deepEqual(parse('"\\b\\f\\n\\r\\t\\"\\\\\\/"'), strings('\b\f\n\r\t"\\/'));
      assert.deepEqual(
        parse('"\\u00e4\\u20ac\\ud83d\\ude00\\u0000x"'),
        strings("\u00e4\u20ac\u{1f600}\0x"),
      );
      assert.deepEqual(parse('"\\ud83d-\\ude00\\ud83d\\u0041"'), strings("\ufffd-\ufffd\ufffdA"));
      const wrong = ["\0", "\b", "\n", "\t", "a", "u12g4", "u123", "x41"];
      const texts = wrong.map((kind) => `"\\${kind}"`);
      assert.deepEqual(
        parse(...texts),
        texts.map(() => null),
      );
    });

    it("takes a NUL neither for space, nor for the end of a word, nor into a string", () => {
      const texts = [
        "\0{}",
        "{}\0",
        "[1\0]",
        "[1\0,2]",
        "tru\0",
        "true\0",
        '"a\0b"',
        '["\\\0"]',
        "\0",
      ];
      assert.deepEqual(
        parse(...texts),
        texts.map(() => null),
      );
    });

    it("refuses what nests too deep, and takes what does not", () => {
      const nested = (depth: number) => "[".repeat(depth) + "]".repeat(depth);
      assert.deepEqual(parse(nested(32), nested(33), "[".repeat(100_000)), [[], null, null]);
    });

    it("accepts what JSON.parse accepts, and reads the same strings", (test) => {
      const seed = seedOfRun();
      test.diagnostic(`seed ${seed}`);
      const random = new Random(seed);
      const texts = Array.from({ length: ROUNDS }, () => {
        const text = Buffer.from(JSON.stringify(anyValue(random, 4), undefined, random.below(3)));
        for (let changes = random.below(4); changes > 0; changes -= 1) change(random, text);
        return random.chance(0.1) ? text.subarray(0, random.below(text.byteLength + 1)) : text;
      });
      const said = run(["json"], texts);
      let valid = 0;
      for (const [i, text] of texts.entries()) {
        const wanted = isUtf8(text) ? stringsOf(text.toString()) : null;
        valid += wanted === null ? 0 : 1;
        assert.deepEqual(said[i], wanted, text.toString());
      }
      assert.ok(valid > ROUNDS / 10 && valid < ROUNDS);
    });
  });

  it("loan() has one limit for room and for streams", () => {
    const [[code, tookMs]] = run(["loans", "100"], []) as [[string, number, string]];
    assert.equal(code, "TIMEOUT");
    assert.equal(tookMs, 100, "by the clock of this program");
  });

  it("a request waits while its user has too many descriptors in flight, and says who has them", {
    skip: skipUnlessRoot,
  }, () => {
    // Nobody else uses this user, and root may have any number in flight.
    const said = run(["sends", "12389"], []);
    assert.deepEqual(said, [
      [
        "TIMEOUT",
        "Cannot send to /hub.sock: user 12389 has more file descriptors in flight than this " +
          "process may open (ulimit -n). One of its processes sends some that nobody receives",
      ],
      ["OK", ""],
    ]);
  });

  for (const from of ["next", "oldest", "latest"] as const) {
    it(`a reader begins where the library's does, or is refused, from ${from} on`, () => {
      const values = [-1, 0, 9, 10, 12, 13, 14, 15, 16, 2 ** 52, 2 ** 53 - 1].map(BigInt);
      const rigs = values.flatMap((published) =>
        values.map((limit) => {
          const rig = new RingRig({ slots: 4, firstPosition: 10, metaBytesMax: META });
          rig.puts(4);
          const words = new BigInt64Array(rig.memory.control);
          words[control.published / 8] = published;
          words[control.limit / 8] = limit;
          return rig;
        }),
      );
      const inputs = rigs.map(({ memory }) => new Uint8Array(memory.control));
      for (const lossy of [false, true]) {
        const mode = lossy ? "lossy" : "waited-for";
        const said = run(["attaches", "4", String(META), "10", from, mode], inputs);
        const wanted = rigs.map((rig) => {
          try {
            return ["OK", rig.attach({ from, lossy }).position];
          } catch (error) {
            if (hasCode(error, "CHANNEL_CORRUPT")) return ["CHANNEL_CORRUPT"];
            throw error;
          }
        });
        assert.deepEqual(said, wanted);
        assert.ok(wanted.filter(([code]) => code === "OK").length > 5);
      }
    });
  }

  it("a lossy reader is refused if the limit lies", () => {
    const rig = new RingRig({ slots: 4, metaBytesMax: META });
    rig.puts(2);
    const take = (limit: number) =>
      run(["takes", "4", String(META), String(limit)], [new Uint8Array(rig.memory.control)]);
    assert.deepEqual(take(2), [["OK"]]);
    assert.deepEqual(take(4), [["OK"]]);
    for (const limit of [-1, 7, 2 ** 52, 2 ** 53])
      assert.deepEqual(take(limit), [["CHANNEL_CORRUPT"]], String(limit));
  });

  it("a reader refuses a state of the writer that nobody knows", () => {
    const said = run(["states", String(META), "0", "1", "2", "3", "4", "5", "99"], []);
    const codes = said.map((line) => (line as string[])[0]);
    const known = ["TIMEOUT", "TIMEOUT", "end", "PEER_GONE", "TIMEOUT"];
    assert.deepEqual(codes, [...known, "CHANNEL_CORRUPT", "CHANNEL_CORRUPT"]);
  });

  describe("the start of a writer after another one", () => {
    /** The library and C go on from the same words. */
    function compare(rig: RingRig, reached: number): void {
      const { slots, firstPosition } = rig.facts;
      const bytes = new Uint8Array(rig.memory.control);
      const line = control.ready + 64 * (rig.control.epoch % 64);
      const words = new DataView(bytes.buffer);
      words.setBigInt64(line + 8, BigInt(reached), true);
      words.setBigInt64(line, 2n ** 63n - 1n, true);
      const args = ["succeeds", String(slots), String(META), String(firstPosition)];
      const [said] = run(args, [bytes]) as [[string, number, number, string]];
      const [code, next, sequence, text] = said;
      const before = Buffer.from(bytes);
      const wanted = codeOf(() => succeed("ring", rig.control, { reached }));
      assert.equal(code, wanted);
      const after = Buffer.from(text, "hex");
      if (code !== "OK") {
        assert.deepEqual(after, before);
        return;
      }
      assert.deepEqual([next, sequence], [rig.control.published, rig.control.sequence]);
      assert.equal(after.readUInt32LE(control.state), 1);
      assert.equal(after.readUInt32LE(control.asleep) % 2, 0);
      const own = control.ready + 64 * (after.readUInt32LE(control.epoch) % 64);
      assert.equal(after.readBigInt64LE(own), BigInt(next));
      // The library writes these three words later, when its writer is open.
      after.copy(bytes, control.state, control.state, control.state + 4);
      after.copy(bytes, control.asleep, control.asleep, control.asleep + 4);
      after.copy(bytes, own, own, own + 8);
      assert.deepEqual(after, Buffer.from(bytes));
    }

    function codeOf(body: () => void): string {
      try {
        body();
        return "OK";
      } catch (error) {
        for (const code of ["IN_USE", "CHANNEL_CORRUPT"] as const)
          if (hasCode(error, code)) return code;
        throw error;
      }
    }

    for (const slots of [1, 4, 5]) {
      it(`is as the library's wherever the last writer died, with ${slots} slots`, () => {
        for (let at = 0, hasDied = true; hasDied; at += 1) {
          const rig = new RingRig({ slots, firstPosition: 3, metaBytesMax: META });
          const reader = rig.attach();
          for (let count = 0; count < slots + 1; count += 1) {
            rig.puts(1);
            rig.drain(reader);
          }
          hasDied = dieAt(at, () => rig.put());
          rig.endWriter();
          compare(rig, 0);
        }
      });
    }

    it("marks messages as lost that the GPU had not finished", () => {
      for (const reached of [0, 1, 2, 3]) {
        const rig = new RingRig({ slots: 4, metaBytesMax: META });
        for (const readyAt of [1, 2, 3]) rig.put({ readyAt });
        rig.endWriter();
        compare(rig, reached);
        const lost = [0, 1, 2].filter((slot) => rig.control.header(slot).flags & flags.lost);
        assert.deepEqual(lost.length, 3 - reached);
      }
    });

    it("is refused as the library's is if the words make no sense", (test) => {
      const seed = seedOfRun();
      test.diagnostic(`seed ${seed}`);
      const random = new Random(seed);
      const found = new Map<string, number>();
      for (let round = 0; round < 60; round += 1) {
        const rig = new RingRig({ slots: 4, firstPosition: 10, metaBytesMax: META });
        rig.puts(random.below(4));
        if (random.chance(0.9)) rig.endWriter();
        const words = new BigInt64Array(rig.memory.control);
        for (let wrong = random.below(3); wrong > 0; wrong -= 1) {
          const at = random.pick([
            ...[control.published, control.limit, control.sequence],
            ...[HEADERS_AT + header.generation, HEADERS_AT + header.passedOver],
          ]);
          words[at / 8] = BigInt(random.pick([0, 1, 9, 10, 11, 14, 15, 16, 2 ** 52]));
        }
        compare(rig, 0);
        const code = String(rig.control.epoch > 0 ? "OK" : "refused");
        found.set(code, (found.get(code) ?? 0) + 1);
      }
      assert.ok((found.get("OK") ?? 0) > 5 && (found.get("refused") ?? 0) > 5);
    });
  });
});

function anyValue(random: Random, depth: number): unknown {
  const kind = random.below(depth > 0 ? 7 : 5);
  const many = <T>(make: () => T) => Array.from({ length: random.below(4) }, make);
  if (kind === 0) return random.pick([true, false, null]);
  if (kind === 1) return random.pick([0, -0.5, 1e300, 1e-7, 2 ** 53, -12, 100]);
  if (kind < 5) return textOf(random);
  if (kind === 5) return many(() => anyValue(random, depth - 1));
  return Object.fromEntries(many(() => [textOf(random), anyValue(random, depth - 1)]));
}

function textOf(random: Random): string {
  const characters = ["a", "name", '"', "\\", "\0", "\b", "\x1f", "\u00e4", "\u20ac", "\u{1f600}"];
  return Array.from({ length: random.below(5) }, () => random.pick(characters)).join("");
}

/** Replaces a byte by one that means something in JSON, or that must not stand there. */
function change(random: Random, text: Buffer): void {
  if (text.byteLength === 0) return;
  const bytes = Buffer.from('\0\b\n\t "\\/{}[],:.-+0123456789eEtrufalsn\xff', "latin1");
  text[random.below(text.byteLength)] = random.pick([...bytes]);
}

/** The strings of a text in hexadecimal, keys included, in order; null if it is not JSON. */
function stringsOf(text: string): string[] | null {
  try {
    JSON.parse(text);
  } catch {
    return null;
  }
  const literals = text.match(/"(?:[^"\\]|\\.)*"/g) ?? [];
  return literals.map((literal) => Buffer.from(JSON.parse(literal)).toString("hex"));
}
