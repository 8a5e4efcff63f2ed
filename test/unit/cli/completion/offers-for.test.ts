import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Command } from "commander";
import type { HubNames } from "../../../../src/cli/completion/hub-names.js";
import type { Offers } from "../../../../src/cli/completion/offer.js";
import { offersFor } from "../../../../src/cli/completion/offers-for.js";
import { sourceOf } from "../../../../src/cli/completion/value-sources.js";
import { commandsOf, optionsOf, pathOf } from "../../../../src/cli/completion/wanted-value.js";
import { ProgramRig } from "../program-rig.js";

/** Each offer says what was asked of the hub. */
const names = {
  objects: async (...kinds: readonly string[]) => [
    { value: kinds.length === 0 ? "any" : kinds.join("-or-") },
    { value: "frame" },
  ],
  arrays: async (bundle: string) => [
    { value: `array of ${bundle}` },
    { value: "" },
    { value: "\0" },
  ],
} as unknown as HubNames;

const rig = new ProgramRig();

/** @param line the words after the program's name; a space at the end begins a new word */
async function offers(line: string): Promise<Offers> {
  return offersFor(rig.program, line.split(" "), names);
}

async function values(line: string): Promise<readonly string[]> {
  const found = await offers(line);
  assert.notEqual(found, "files", line);
  return found === "files" ? [] : found.map(({ value }) => value);
}

describe("completion", () => {
  it("offers each command that --help lists, with its description", async () => {
    for (const group of [rig.program, ...rig.commands()].filter(
      ({ commands }) => commands.length,
    )) {
      const found = await offers(`${pathOf(group)} `.trimStart());
      const listed = commandsOf(group);
      assert.deepEqual(
        found,
        listed.map((command) => ({ value: command.name(), text: command.description() })),
      );
    }
    const top = await values("");
    for (const name of ["put", "channel", "hub", "help"]) assert.ok(top.includes(name), name);
    for (const hidden of ["complete", "manual"]) assert.ok(!top.includes(hidden), hidden);
  });

  it("offers each option that --help lists, with its description", async () => {
    for (const command of [rig.program, ...rig.commands()]) {
      const found = await offers(`${pathOf(command)} -`.trimStart());
      const listed = optionsOf(command);
      assert.ok(listed.some(({ long }) => long === "--help"));
      assert.deepEqual(
        found,
        listed.map(({ long, description }) => ({ value: long, text: description })),
      );
    }
  });

  it("knows what each argument and each option with a value takes", () => {
    const unknown = rig
      .commands()
      .filter((command) => !["complete", "manual"].includes(command.name()))
      .flatMap((command) => [
        ...command.registeredArguments
          .filter((argument) => sourceOf(command, argument) === undefined)
          .map((argument) => `${pathOf(command)} <${argument.name()}>`),
        ...command.options
          .filter((option) => option.required || option.optional)
          .filter((option) => sourceOf(command, option) === undefined)
          .map((option) => `${pathOf(command)} ${option.flags}`),
      ]);
    assert.deepEqual(unknown, [], "add these to src/cli/completion/value-sources.ts");
  });

  it("offers objects of the kind that a command takes", async () => {
    for (const [line, kind] of [
      ["ls ", "any"],
      ["rm frame-1 ", "any"],
      ["inspect ", "any"],
      ["get ", "array-or-bundle"],
      ["channel send ", "channel"],
      ["channel receive ", "channel"],
      ["channel stat --json ", "channel"],
    ] as const)
      assert.deepEqual(await values(line), [kind, "frame"], line);
    assert.deepEqual(await values("put "), [], "a new object has a new name");
  });

  it("offers a name once if a command takes several", async () => {
    assert.deepEqual(await values("rm frame "), ["any"]);
    assert.deepEqual(await values("ls any frame "), []);
  });

  it("offers the values of an option in each form that the parser takes", async () => {
    const policies = ["wait", "drop-oldest", "drop-newest", "error"];
    assert.deepEqual(await values("channel send x --when-full "), policies);
    assert.deepEqual(
      await values("channel send x --when-full=d"),
      policies.map((policy) => `--when-full=${policy}`),
    );
    for (const line of ["put x --device ", "put x -d ", "put x -rd ", "doctor -d "])
      assert.ok((await values(line)).includes("host"), line);
    // These words have their values, so that the next one is an argument.
    for (const line of ["get --array a ", "get --array=a ", "get -aa ", "get -fa a ", "get -f "])
      assert.deepEqual(await values(line), ["array-or-bundle", "frame"], line);
    assert.ok((await values("put x --dtype ")).includes("bfloat16"));
    assert.deepEqual(await values("put x --share="), ["--share=group", "--share=all"]);
  });

  it("takes no option for the value of an option", async () => {
    assert.deepEqual(await values("get --wait "), []);
    assert.deepEqual(await values("get --wait -"), []);
    assert.deepEqual(await values("get --wait -f "), ["array-or-bundle", "frame"]);
    // If the value may be missing, an option may follow.
    const program = new Command();
    program.command("run").argument("<name>").option("-o, --optional [time]").option("-f, --flag");
    const after = async (...words: readonly string[]) =>
      (await offersFor(program, ["run", ...words], names)) as readonly { value: string }[];
    assert.deepEqual(await after("-o", ""), []);
    assert.deepEqual((await after("-o", "-")).at(-1)?.value, "--help");
    for (const words of [
      ["-o", "5s", ""],
      ["-o", "-f", ""],
      ["-fo", "5s", ""],
    ])
      assert.deepEqual((await after(...words))[0]?.value, "any", words.join(" "));
  });

  it("offers the arrays of the bundle that the line names", async () => {
    assert.deepEqual(await values("get weights --array "), ["array of weights"]);
    assert.deepEqual(await values("inspect weights --array=a"), ["--array=array of weights"]);
    assert.deepEqual(await values("get --array "), []);
  });

  it("leaves paths to the shell", async () => {
    for (const line of [
      "put x ",
      "get x ",
      "channel send x ",
      "channel send x a.npy ",
      "channel receive x -o ",
      "hub serve --config=",
      "hub status --socket ",
      "hub check-config ",
      "demo vmm producer ",
    ])
      assert.equal(await offers(line), "files", line);
  });

  it("offers demos, and the roles of the demo that the line names", async () => {
    assert.ok((await values("demo ")).includes("consumer-first"));
    assert.deepEqual(await values("demo vmm "), ["producer", "consumer"]);
    assert.deepEqual(await values("demo daemon "), ["serve", "watch"]);
    assert.deepEqual(await values("demo ring producer "), []);
    for (const line of ["demo fork ", "demo constructor ", "demo bogus x "])
      assert.deepEqual(await values(line), [], line);
  });

  it("offers commands after help", async () => {
    assert.deepEqual(await values("help "), await values(""));
    assert.deepEqual(await values("help hub "), await values("hub "));
    for (const line of ["help put ", "help bogus ", "help hub serve "])
      assert.deepEqual(await values(line), [], line);
  });

  it("offers options where a command takes no more arguments", async () => {
    assert.deepEqual(await values("doctor "), ["--device", "--json", "--help"]);
    assert.deepEqual(await values("hub stop "), ["--socket", "--force", "--help"]);
  });

  it('offers no options after "--"', async () => {
    assert.deepEqual(await values("ls -- -"), ["any", "frame"]);
    assert.deepEqual(await values("doctor -- "), []);
    assert.equal(await offers("put -- x "), "files");
  });

  it("offers nothing after an unknown command, or for an option that does not exist", async () => {
    for (const line of ["bogus ", "hub bogus -", "put x --bogus=", "put x --replace="])
      assert.deepEqual(await values(line), [], line);
  });
});

rig[Symbol.dispose]();
