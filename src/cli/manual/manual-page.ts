/** The manual page, made from the definitions behind `--help`. */
import { type Command, Help } from "commander";
import { packageVersion } from "../../base/own-package.js";
import { environment, examples, exitCodes, files, purpose } from "../program-facts.js";
import { entry, escapeRoff, paragraph, prose, section, subsection, verbatim } from "./roff.js";

const ABOUT = `
A process puts an array, a bundle of arrays or a channel into GPU or host memory under a name. Other
processes open it by that name, without a copy. The hub, a process that keeps names and file
descriptors, starts when a command needs it. It ends by itself some time after the last client and
the last object are gone.

Each command has --help. Commands that print data have --json.`;

const help = new Help();

/** The source of cuda-ipc(1). */
export function manualPage(program: Command): string {
  const version = escapeRoff(`cuda-ipc ${packageVersion()}`);
  const parts = [
    `.TH CUDA\\-IPC 1 "" "${version}" "User Commands"`,
    // Names and options are not hyphenated, and lines do not end evenly.
    ".nh",
    ".ad l",
    section("NAME"),
    `cuda\\-ipc \\- ${escapeRoff(purpose)}`,
    section("SYNOPSIS"),
    ...commandsUnder(program).map((command) => `${escapeRoff(help.commandUsage(command))}\n.br`),
    section("DESCRIPTION"),
    ...prose(ABOUT),
    ...optionsOf(program),
    section("COMMANDS"),
    ...commandsUnder(program).flatMap(describe),
    section("ENVIRONMENT"),
    ...environment.map((row) => entry(...row)),
    section("FILES"),
    ...files.map((row) => entry(...row)),
    section("EXIT STATUS"),
    ...exitCodes.map((row) => entry(...row)),
    section("EXAMPLES"),
    verbatim(examples),
    section("SEE ALSO"),
    paragraph("docs/guide.md and docs/reference.md of the package, memfd_create(2), unix(7)"),
  ];
  return `${parts.join("\n")}\n`;
}

/** All commands that do something themselves, in the order of `--help`. */
function commandsUnder(command: Command): Command[] {
  return help
    .visibleCommands(command)
    .flatMap((one) => (one.commands.length > 0 ? commandsUnder(one) : [one]));
}

function describe(command: Command): string[] {
  return [
    subsection(help.commandUsage(command)),
    paragraph(sentence(command.description())),
    ...help
      .visibleArguments(command)
      .map((argument) => entry(help.argumentTerm(argument), help.argumentDescription(argument))),
    ...optionsOf(command),
    ...prose(textAfterHelp(command)),
  ];
}

function optionsOf(command: Command): string[] {
  return help
    .visibleOptions(command)
    .filter(({ long }) => long !== "--help")
    .map((option) => entry(help.optionTerm(option), help.optionDescription(option)));
}

/** What `addHelpText` added. The parser has no other way to read it. */
function textAfterHelp(command: Command): string {
  let text = "";
  const output = command.configureOutput();
  command.configureOutput({
    ...output,
    writeOut: (part) => {
      text += part;
    },
  });
  command.outputHelp();
  command.configureOutput(output);
  return text.slice(command.helpInformation().length);
}

function sentence(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
}
