import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { after, describe, it } from "node:test";
import { Help } from "commander";
import { manualPage } from "../../../../src/cli/manual/manual-page.js";
import { escapeRoff, paragraph, prose, verbatim } from "../../../../src/cli/manual/roff.js";
import { ProgramRig } from "../program-rig.js";

const noGroff =
  spawnSync("groff", ["--version"]).status === 0 || process.env.REQUIRE_SHELLS === "1"
    ? false
    : "no groff";

/** What a reader sees, without bold letters. @throws if groff warns */
function read(source: string): string {
  const { status, stdout, stderr } = spawnSync(
    "groff",
    ["-man", "-Tascii", "-P-c", "-P-b", "-P-u", "-ww", "-rLL=78n"],
    { input: source, encoding: "utf8" },
  );
  assert.deepEqual({ status, stderr }, { status: 0, stderr: "" });
  return stdout;
}

const words = (text: string) => text.replaceAll(/\s+/g, " ");

describe("the manual page", { skip: noGroff }, () => {
  const rig = new ProgramRig();
  after(() => rig[Symbol.dispose]());
  const source = manualPage(rig.program);

  it("has the sections that readers expect, in their order", () => {
    assert.deepEqual(
      [...read(source).matchAll(/^([A-Z]+(?: [A-Z]+)?)$/gm)].map(([, title]) => title),
      [
        ...["NAME", "SYNOPSIS", "DESCRIPTION", "COMMANDS", "ENVIRONMENT", "FILES", "EXIT STATUS"],
        ...["EXAMPLES", "SEE ALSO"],
      ],
    );
  });

  it("has each command with its arguments, options and defaults", () => {
    const text = words(read(source));
    const help = new Help();
    const commands = rig.commands().filter(({ commands }) => commands.length === 0);
    const hidden = ["complete", "manual"];
    for (const command of commands.filter((one) => !hidden.includes(one.name()))) {
      assert.ok(text.includes(help.commandUsage(command)), help.commandUsage(command));
      for (const argument of help.visibleArguments(command)) {
        const entry = `${argument.name()} ${help.argumentDescription(argument)}`;
        assert.ok(text.includes(words(entry)), entry);
      }
      for (const option of command.options) {
        const entry = `${option.flags} ${help.optionDescription(option)}`;
        assert.ok(text.includes(words(entry)), entry);
      }
    }
    for (const name of hidden) assert.ok(!text.includes(`cuda-ipc ${name} `), name);
    assert.match(text, /which demo, see below \(default: "share"\)/);
    assert.match(text, /\$ seq 1000 \| cuda-ipc channel send numbers --lines/);
    assert.match(text, /CUDA_IPC_HUB_UID the uid of another user/);
    assert.match(text, /130 interrupted by Ctrl-C/);
  });

  it("has no text that roff takes for a request", () => {
    // Each line of the source is a request or a text, and no text begins like a request.
    for (const line of source.split("\n"))
      assert.match(line, /^(\.(TH|SH|SS|PP|TP|nf|fi|nh|ad|br)\b.*|[^.'].*|)$/);
  });
});

describe("text for roff", { skip: noGroff }, () => {
  const hard = [
    ".SH not a heading",
    "'br not a request",
    "back\\slash \\fBnot bold\\fP",
    "--option -x 'quoted' `code` \"said\" ^ ~ # $HOME",
    ".",
    "\\",
  ];

  it("shows every character as it is", () => {
    const page = (body: string) => words(read(`.TH X 1 "" "" ""\n.SH A\n${body}\n`));
    for (const text of hard) {
      assert.ok(page(paragraph(text)).includes(words(text)), text);
      assert.ok(page(verbatim([text])).includes(words(text)), text);
    }
  });

  it("keeps a text on one line, and writes ASCII", () => {
    assert.equal(escapeRoff("a\n .b"), "a .b");
    assert.equal(escapeRoff("é 👩"), "\\[u00E9] \\[u1F469]");
  });

  it("keeps indented lines, and joins others to paragraphs", () => {
    assert.deepEqual(prose("\nOne\ntwo.\n\nExample:\n  $ a\n  $ b\nend\n"), [
      paragraph("One two."),
      paragraph("Example:"),
      verbatim(["  $ a", "  $ b"]),
      paragraph("end"),
    ]);
  });
});
