/** What a user of the package sees in its types: nothing that is for other parts of the package alone. */
import assert from "node:assert/strict";
import { dirname, join, relative } from "node:path";
import { before, describe, it } from "node:test";
import ts from "typescript";

const root = process.cwd();

/** What is published of a class, by the file that has it. */
const members: Readonly<Record<string, string>> = {
  "channel/channel-reader.d.ts ChannelReader":
    "label stream constructor device open dtype shape slots metaBytesMax mayBeOvertaken received missed tryNext next " +
    "[Symbol.asyncIterator] toWeb close [Symbol.dispose]",
  "channel/channel-writer.d.ts ChannelWriter":
    "label constructor device open slots whenFull readers dropped committed tryLoan loan waitForReaders close end [Symbol.dispose] toWeb",
  "channel/received-slot.d.ts ReceivedSlot":
    "sequence timestampMs missed byteLength constructor open array bytes meta json release [Symbol.dispose]",
  "channel/loaned-slot.d.ts LoanedSlot": "constructor open willBeDropped array bytes commit close [Symbol.dispose]",
};

describe("the types that are published", () => {
  let options: ts.CompilerOptions;
  /** By their paths below dist. */
  let declarations: ReadonlyMap<string, string>;
  before(() => {
    ({ options, declarations } = emitted());
  });

  it("have of channels what a user calls", () => {
    for (const [place, expected] of Object.entries(members)) {
      const [path = "", name = ""] = place.split(" ");
      assert.deepEqual(membersOf(declarations.get(path) ?? "", name).sort(), expected.split(" ").sort(), place);
    }
  });

  it("leave out what says that it is internal, and make sense without it", () => {
    for (const [path, text] of declarations) assert.ok(!text.includes("@internal"), path);
    const files = new Map([...declarations].map(([path, text]) => [join(root, "dist", path), text]));
    assert.deepEqual(faultsOf(files, options), []);
  });
});

function emitted(): { options: ts.CompilerOptions; declarations: Map<string, string> } {
  const config = ts.getParsedCommandLineOfConfigFile("tsconfig.build.json", {}, {
    ...ts.sys,
    onUnRecoverableConfigFileDiagnostic: ({ messageText }) => assert.fail(String(messageText)),
  } as ts.ParseConfigFileHost);
  assert.ok(config);
  const options = { ...config.options, noCheck: true };
  const declarations = new Map<string, string>();
  const program = ts.createProgram([join(root, "src/index.ts"), join(root, "src/testing/index.ts")], options);
  program.emit(undefined, (path, text) => declarations.set(relative(join(root, "dist"), path), text), undefined, true);
  return { options, declarations };
}

function membersOf(text: string, name: string): string[] {
  const source = ts.createSourceFile("it.d.ts", text, ts.ScriptTarget.ES2022);
  const declared = source.statements.filter(ts.isClassDeclaration).find((it) => it.name?.text === name);
  return (declared?.members ?? [])
    .map((member) => (ts.isConstructorDeclaration(member) ? "constructor" : (member.name?.getText(source) ?? "?")))
    .filter((member) => !member.startsWith("#"));
}

/** What the compiler says to declarations that lie in memory alone. */
function faultsOf(files: ReadonlyMap<string, string>, given: ts.CompilerOptions): string[] {
  const options: ts.CompilerOptions = { ...given, noCheck: false, noEmit: true, skipLibCheck: false, paths: {} };
  const host = ts.createCompilerHost(options);
  const folders = new Set([...files.keys()].map((path) => dirname(path)));
  const { readFile, fileExists, directoryExists, getSourceFile } = host;
  host.readFile = (path) => files.get(path) ?? readFile(path);
  host.fileExists = (path) => files.has(path) || fileExists(path);
  host.directoryExists = (path) => folders.has(path) || (directoryExists?.(path) ?? true);
  host.getSourceFile = (path, ...rest) => {
    const text = files.get(path);
    return text === undefined ? getSourceFile(path, ...rest) : ts.createSourceFile(path, text, ts.ScriptTarget.ES2022);
  };
  const program = ts.createProgram([...files.keys()], options, host);
  const own = program.getSourceFiles().filter(({ fileName }) => files.has(fileName));
  return own
    .flatMap((source) => [...program.getSyntacticDiagnostics(source), ...program.getSemanticDiagnostics(source)])
    .map(({ file, messageText }) => `${file?.fileName}: ${ts.flattenDiagnosticMessageText(messageText, "\n")}`);
}
