/** The published types show no internals of the package. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { before, describe, it } from "node:test";
import { pathToFileURL } from "node:url";
import ts from "typescript";
import ts52 from "typescript-5.2";
import ts59 from "typescript-5.9";
import { codeBlocks, typeFaults } from "../docs/code-blocks.js";
import { TestFolder } from "../support/test-folder.js";

const root = process.cwd();
const PUBLISHED = "build/published";
const DOORS = [
  "index",
  "doors/service",
  "doors/peer",
  "doors/interop",
  "doors/kernels",
  "doors/diagnostics",
];
const NAMES_MAX = 61;

/** The published members of the channel classes. */
const members: Readonly<Record<string, string>> = {
  ChannelReader:
    "label stream constructor device open dtype shape slots metaBytesMax lossy received missed tryNext next " +
    "[Symbol.asyncIterator] toWeb close [Symbol.dispose]",
  ChannelWriter:
    "label constructor device open slots whenFull readers dropped committed tryLoan loan waitForReaders close end [Symbol.dispose] toWeb",
  ReceivedSlot:
    "sequence timestampMs missed byteLength constructor open array bytes meta json release [Symbol.dispose]",
  LoanedSlot: "constructor open willBeDropped array bytes commit close [Symbol.dispose]",
};

/** Uses names of several doors together. */
const PROGRAM = `
import { connect, Device, DeviceArray, type SharedArray } from "cuda-ipc";
import { DeviceBuffer, type Stream } from "cuda-ipc/interop";
import { arg, Module } from "cuda-ipc/kernels";
import { share } from "cuda-ipc/peer";
import { serve } from "cuda-ipc/service";

const hub = await connect();
const device: Device = hub.device();
const stream: Stream = device.createStream();
const array: SharedArray<"int32"> = await hub.put("a", Int32Array.of(1));
const buffer: DeviceBuffer = array.buffer;
share(array);
share(buffer);
share(DeviceArray.allocate(device, { dtype: "int32", shape: [1] }));
await using _ = await serve(hub, "s", { request: { byteLength: 8 } }, () => undefined);
using module = Module.load(device, "");
module.kernel("k").launch({ stream, grid: 1, block: 1, args: [array, buffer, arg.i32(1)] });
`;

/** What older and newer compilers took for a mistake. */
const CONSUMER = `
import { connect, type DeviceArray } from "cuda-ipc";
import { connectService, serve } from "cuda-ipc/service";

await using hub = await connect();
const options = { request: { byteLength: 8 } } as const;
await using nothing = await serve(hub, "a", options, () => {});
await using later = await serve(hub, "b", options, async () => {});
await using some = await serve(hub, "c", options, async (request) => {
  if (request.meta === null) return;
  console.log(request.meta);
});
await using meta = await serve(hub, "d", options, async ({ meta }) =>
  meta === null ? undefined : { meta });
// @ts-expect-error
await using wrong = await serve(hub, "e", options, () => 5);
await using client = await connectService(hub, "a");
await client.request((slot) => slot.array.write(Uint8ClampedArray.of(1)));

const pixels = await hub.put("pixels", new Uint8ClampedArray(4));
const bytes: DeviceArray<"uint8"> = pixels;
await bytes.write(new Uint8ClampedArray(new SharedArrayBuffer(4)));
await bytes.write(await bytes.read());
new Response(await bytes.read());
new Blob([await bytes.read(), bytes.view()]);
const floats = await hub.open("floats", { dtype: "float32" });
new Response(await floats.read());
`;

const compilers = { "5.2": ts52, "5.9": ts59, "of this project": ts };

/** Each line uses an internal. */
const REACHING = [
  "hub.device().driver",
  "hub.device().lanes",
  "hub.device().retain()",
  'Device.open("host", () => undefined)',
  'array.buffer.use("read", {}, async () => 1)',
  "array.buffer.enqueue",
  "hub.device().createStream().handle",
  "new Device()",
  "new Kernel()",
  "new TypedArgument()",
];

interface Scripts {
  unpublishedNames(text: string): string[];
  changesBetween(committed: string, found: string): string[];
}

async function script<Name extends keyof Scripts>(
  file: string,
  name: Name,
): Promise<Scripts[Name]> {
  return (await import(pathToFileURL(join(root, "scripts", file)).href))[name];
}

describe("the published types", () => {
  let types: string;
  before(() => {
    const program = `(await import("./scripts/declarations.mjs")).writeDeclarations("${PUBLISHED}", "${PUBLISHED}-work")`;
    const { status, stdout, stderr } = spawnSync(
      process.execPath,
      ["--input-type=module", "--eval", program],
      { cwd: root, encoding: "utf8" },
    );
    assert.equal(status, 0, stdout + stderr);
    types = readFileSync(join(root, PUBLISHED, "types.d.ts"), "utf8");
  });

  it("are one file, and one for each door", () => {
    const files = readdirSync(join(root, PUBLISHED), { recursive: true, encoding: "utf8" });
    assert.deepEqual(
      files.filter((file) => file.endsWith(".ts")).sort(),
      [...DOORS, "types"].map((file) => `${file}.d.ts`).sort(),
    );
  });

  for (const [version, compiler] of Object.entries(compilers)) {
    it(`pass TypeScript ${version}: in a program, and in the examples of the documents`, () => {
      const docs = readdirSync("docs").filter((name) => name.endsWith(".md"));
      const pages = ["README.md", ...docs.map((name) => `docs/${name}`)];
      const consumer = { place: "consumer:1", typescript: CONSUMER, needsGpu: false };
      const faults = typeFaults([consumer, ...pages.flatMap(codeBlocks)], {
        compiler: compiler as unknown as typeof ts,
        published: PUBLISHED,
        libs: ["lib.dom.d.ts"],
      });
      assert.deepEqual(faults, []);
    });
  }

  it("have each name at one door, and a limited number at the main one", () => {
    const [main = [], ...others] = DOORS.map((door) =>
      [
        ...readFileSync(join(root, PUBLISHED, `${door}.d.ts`), "utf8").matchAll(/^ {2}(\w+),$/gm),
      ].map(([, name]) => name),
    );
    assert.ok(main.length > 0 && main.length <= NAMES_MAX, `${main.length} names`);
    const all = [main, ...others].flat();
    assert.deepEqual(
      all.filter((name, i) => all.indexOf(name) !== i),
      [],
    );
  });

  it("have only the members of channels that a user calls", () => {
    for (const [name, expected] of Object.entries(members))
      assert.deepEqual(membersOf(types, name).sort(), expected.split(" ").sort(), name);
  });

  it("leave out everything marked @internal, and compile without it", () => {
    assert.ok(!types.includes("@internal"));
    assert.ok(!types.includes("valibot"));
    assert.deepEqual(faultsOf(PROGRAM), []);
    assert.deepEqual(faultsOf("", ["types", ...DOORS]), []);
  });

  it("do not let a user reach internals", () => {
    const prologue = [
      'import { connect, Device } from "cuda-ipc";',
      'import { Kernel, TypedArgument } from "cuda-ipc/kernels";',
      "const hub = await connect();",
      'const array = await hub.open("a");',
    ];
    const faults = faultsOf([...prologue, ...REACHING].join("\n"));
    const lines = new Set(faults.map((fault) => Number(/:(\d+): /.exec(fault)?.[1])));
    assert.deepEqual(
      [...lines].sort((a, b) => a - b),
      REACHING.map((_, i) => prologue.length + i + 1),
      faults.join("\n"),
    );
  });
});

describe("unpublishedNames()", () => {
  it("finds a signature with a name that is not exported", async () => {
    const unpublishedNames = await script("declarations.mjs", "unpublishedNames");
    const hidden = "declare interface Hidden { a: number }\n";
    assert.deepEqual(unpublishedNames(`${hidden}export declare class A { b(): Hidden; }\n`), [
      "A names Hidden",
    ]);
    for (const fine of [
      "export declare class A implements Hidden { a: number }",
      'export declare type A = Pick<Hidden, "a">;',
      'export declare type A = Hidden["a"];',
      "export { Hidden as A };\nexport declare class B { b(): Hidden; }",
    ])
      assert.deepEqual(unpublishedNames(`${hidden}${fine}\n`), [], fine);
  });
});

describe("changesBetween()", () => {
  it("names the first line that differs, and missing and surplus reports", async () => {
    const changesBetween = await script("api-changes.mjs", "changesBetween");
    await using folder = new TestFolder();
    const [committed, found] = ["api", "found"].map((name) => folder.file(name));
    assert.ok(committed !== undefined && found !== undefined);
    mkdirSync(found);
    writeFileSync(join(found, "a.md"), "one\ntwo");
    assert.deepEqual(changesBetween(committed, found), [
      `${committed}/a.md:1 says "(nothing)", and the types say "one".`,
    ]);
    mkdirSync(committed);
    writeFileSync(join(committed, "a.md"), "one\ntwo");
    assert.deepEqual(changesBetween(committed, found), []);
    writeFileSync(join(committed, "a.md"), "one\nto");
    writeFileSync(join(committed, "b.md"), "gone");
    assert.deepEqual(changesBetween(committed, found), [
      `${committed}/a.md:2 says "to", and the types say "two".`,
      `${committed}/b.md:1 says "gone", and the types say "(nothing)".`,
    ]);
  });
});

function membersOf(text: string, name: string): string[] {
  const source = ts.createSourceFile("it.d.ts", text, ts.ScriptTarget.ES2022);
  const declared = source.statements
    .filter(ts.isClassDeclaration)
    .find((it) => it.name?.text === name);
  return (declared?.members ?? [])
    .map((member) =>
      ts.isConstructorDeclaration(member) ? "constructor" : (member.name?.getText(source) ?? "?"),
    )
    .filter((member) => !member.startsWith("#"));
}

/** The compiler's errors for a user's program and for some of the published files. */
function faultsOf(program: string, files: readonly string[] = []): string[] {
  const path = join(root, "build/user-program.mts");
  const options: ts.CompilerOptions = {
    target: ts.ScriptTarget.ES2022,
    lib: ["lib.es2023.d.ts", "lib.esnext.disposable.d.ts"],
    module: ts.ModuleKind.NodeNext,
    types: ["node"],
    strict: true,
    noEmit: true,
    skipLibCheck: files.length === 0,
    paths: {
      "cuda-ipc": [join(root, PUBLISHED, "index.d.ts")],
      "cuda-ipc/*": [join(root, PUBLISHED, "doors/*.d.ts")],
    },
  };
  const host = ts.createCompilerHost(options);
  const { readFile, fileExists, getSourceFile } = host;
  host.fileExists = (name) => name === path || fileExists(name);
  host.readFile = (name) => (name === path ? program : readFile(name));
  host.getSourceFile = (name, ...rest) =>
    name === path
      ? ts.createSourceFile(name, program, {
          languageVersion: ts.ScriptTarget.ES2022,
          impliedNodeFormat: ts.ModuleKind.ESNext,
        })
      : getSourceFile(name, ...rest);
  const paths = [path, ...files.map((file) => join(root, PUBLISHED, `${file}.d.ts`))];
  const compiled = ts.createProgram(paths, options, host);
  return paths
    .map((name) => compiled.getSourceFile(name))
    .flatMap((source) => [
      ...compiled.getSyntacticDiagnostics(source),
      ...compiled.getSemanticDiagnostics(source),
    ])
    .map(
      ({ file, start = 0, messageText }) =>
        `${file?.fileName}:${(file?.getLineAndCharacterOfPosition(start).line ?? 0) + 1}: ` +
        ts.flattenDiagnosticMessageText(messageText, "\n"),
    );
}
