/**
 * Holds the source to the rules of ARCHITECTURE.md: the table of layers, one importer of koffi,
 * doors that open no library, short files and short lines, and files that documents name.
 */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../../../", import.meta.url));
const SRC = join(ROOT, "src");
const FILE_LINES_MAX = 320;
const LINE_LENGTH_MAX = 100;

/** Files that may have longer lines, and how many. */
const LONG_LINES: Readonly<Record<string, { readonly count: number; readonly reason: string }>> = {
  "driver/cuda/ptx-entries.ts": {
    count: 1,
    reason: "a regular expression for one line of PTX is easier to check in one piece",
  },
};
const IMPORTS_PACKAGE = fileURLToPath(new URL("./imports-package.js", import.meta.url));

/** The folders that each folder may import, from the table under `## Layers`. */
export function layersOf(markdown: string): Map<string, readonly string[]> {
  const section = /^## Layers$([\s\S]*?)(?=^## |(?![\s\S]))/m.exec(markdown)?.[1] ?? "";
  const layers = new Map<string, readonly string[]>();
  for (const line of section.split("\n")) {
    const cells = /^\|([^|]*)\|[^|]*\|([^|]*)\|$/.exec(line.trim());
    const [folder, allowed] = [cells?.[1]?.trim(), cells?.[2]?.trim()];
    if (folder === undefined || allowed === undefined || folder === "folder" || /^-+$/.test(folder))
      continue;
    layers.set(folder, allowed === "nothing" ? [] : allowed.split(",").map((name) => name.trim()));
  }
  return layers;
}

/** Every module that a source text imports: by `import`, `export from`, `import()` or a type. */
export function importsOf(source: string): string[] {
  const code = source.replace(/\/\*[\s\S]*?\*\//g, "").replace(/^\s*\/\/.*$/gm, "");
  const found = code.matchAll(
    /(?:\bfrom\s*|\bimport\s*\(\s*|\bimport\s+|\brequire\s*\(\s*)(["'])([^"']+)\1/g,
  );
  return [...found].map((match) => match[2] ?? "");
}

interface SourceFile {
  /** From src: `os/owned-fd.ts`. */
  readonly path: string;
  /** `os`; `.` for the door. */
  readonly folder: string;
  readonly text: string;
}

function sourceFiles(): SourceFile[] {
  return readdirSync(SRC, { recursive: true, encoding: "utf8" })
    .filter((path) => path.endsWith(".ts"))
    .map((path) => ({
      path,
      folder: dirname(path).split("/")[0] ?? ".",
      text: readFileSync(join(SRC, path), "utf8"),
    }));
}

/** Imports that the table does not allow, as `from -> to`. */
export function breaches(
  files: readonly SourceFile[],
  layers: ReadonlyMap<string, readonly string[]>,
): string[] {
  return files
    .filter((file) => file.folder !== ".")
    .flatMap((file) => {
      const allowed = layers.get(file.folder);
      if (allowed === undefined) return [`${file.path} -> its folder is not in the table`];
      return importsOf(file.text)
        .filter((name) => name.startsWith("."))
        .map((name) => relative(SRC, resolve(SRC, dirname(file.path), name)).split("/")[0] ?? "")
        .filter((target) => target !== file.folder && !allowed.includes(target))
        .map((target) => `${file.path} -> ${target}`);
    });
}

/** The files and folders of the project that a document names. */
export function pathsIn(markdown: string): string[] {
  const found = markdown.matchAll(
    /(?<![\w/.-])((?:api|bench|deploy|docs|examples|include|python|scripts|src|test)\/[\w./-]*[\w/])/g,
  );
  return [...new Set([...found].map((match) => match[1] ?? ""))];
}

/** Whether code depends on the kind of a device. The driver says what a device can do. */
function asksKind(source: string): boolean {
  const code = source.replace(/\/\*[\s\S]*?\*\//g, "").replace(/\/\/.*$/gm, "");
  const kind = '"(?:host|cuda)"';
  return new RegExp(
    `kind\\s*[!=]==\\s*${kind}|${kind}\\s*[!=]==\\s*[\\w.]*kind|case ${kind}|driver\\.kind`,
  ).test(code);
}

/** `doctor` resolves the path of koffi, which does not load it. */
function loadsKoffi(source: string): boolean {
  return importsOf(source).includes("koffi") || /(?<!\.resolve)\("koffi"\)/.test(source);
}

describe("architecture", () => {
  const files = sourceFiles();
  const layers = layersOf(readFileSync(join(ROOT, "ARCHITECTURE.md"), "utf8"));

  it("has a table of layers that describes every folder it names", () => {
    assert.ok(layers.size >= 10, `${layers.size} folders`);
    for (const [folder, allowed] of layers) {
      for (const target of allowed)
        assert.ok(layers.has(target), `${folder} may import ${target}, which is not in the table`);
    }
  });

  for (const document of ["ARCHITECTURE.md", "CONTRIBUTING.md"]) {
    it(`names only files that exist in ${document}`, () => {
      const paths = pathsIn(readFileSync(join(ROOT, document), "utf8"));
      assert.ok(paths.length >= 5, `${paths.length} paths`);
      assert.deepEqual(
        paths.filter((path) => !existsSync(join(ROOT, path))),
        [],
      );
    });
  }

  it("finds a path wherever a sentence names it", () => {
    const text = "See docs/a.md. `src/b/c.ts`, [x](test/d/), `npm run src`, https://e.f/src/g.ts";
    assert.deepEqual(pathsIn(text), ["docs/a.md", "src/b/c.ts", "test/d/"]);
  });

  it("has full paths in the table of changes", () => {
    const architecture = readFileSync(join(ROOT, "ARCHITECTURE.md"), "utf8");
    const rows = /^## Where a change goes$([\s\S]*?)^## /m.exec(architecture)?.[1] ?? "";
    const names = [...rows.matchAll(/`([^`]+\.ts)`/g)].map((match) => match[1] ?? "");
    assert.ok(names.length >= 20, `${names.length} files`);
    assert.deepEqual(
      names.filter((name) => !name.includes("/")),
      [],
    );
  });

  it("imports between folders only where the table allows it", () => {
    assert.deepEqual(breaches(files, layers), []);
  });

  it("reports a forbidden import, whatever the syntax of the import", () => {
    const texts = [
      'import { a } from "../hub/a.js";',
      'export { a } from "../hub/a.js";',
      'import type { A } from "../hub/a.js";',
      'import "../hub/a.js";',
      'const a = await import("../hub/a.js");',
      'type A = typeof import("../hub/a.js");',
      'import {\n  a,\n  b,\n} from "../hub/a.js";',
    ];
    for (const text of texts)
      assert.deepEqual(breaches([{ path: "os/x.ts", folder: "os", text }], layers), [
        "os/x.ts -> hub",
      ]);
    const comment = {
      path: "os/x.ts",
      folder: "os",
      text: '// import "../hub/a.js";\n/* from "../hub/a.js" */',
    };
    assert.deepEqual(breaches([comment], layers), []);
  });

  it("checks the kind of a device only in src/driver", () => {
    const found = files
      .filter(({ folder }) => folder !== "driver")
      .filter(({ text }) => asksKind(text));
    assert.deepEqual(
      found.map(({ path }) => path),
      [],
    );
  });

  it("reports code that checks the kind of a device", () => {
    for (const text of [
      'device.kind === "host"',
      'kind !== "cuda"',
      '"host" === reference.kind',
      'case "cuda":',
    ])
      assert.ok(asksKind(text), text);
    for (const text of [
      'uuid === "host"',
      '{ kind: "host" }',
      'kind === "array"',
      '// kind === "host"',
    ])
      assert.ok(!asksKind(text), text);
  });

  it("has one importer of koffi", () => {
    const importers = files.filter((file) => loadsKoffi(file.text));
    assert.deepEqual(
      importers.map((file) => file.path),
      ["ffi/koffi.ts"],
    );
  });

  it("has no file over 320 lines", () => {
    const long = files.map((file) => [file.path, file.text.split("\n").length - 1] as const);
    assert.deepEqual(
      long.filter(([, lines]) => lines > FILE_LINES_MAX),
      [],
    );
  });

  it("has no line over 100 characters, except the listed ones", () => {
    const found: Record<string, number> = {};
    for (const { path, text } of files) {
      const count = text.split("\n").filter((line) => line.length > LINE_LENGTH_MAX).length;
      if (count > 0) found[path] = count;
    }
    const allowed = Object.entries(LONG_LINES).map(([path, { count }]) => [path, count] as const);
    assert.deepEqual(found, Object.fromEntries(allowed));
  });

  for (const door of ["index", "service", "peer", "interop", "kernels", "diagnostics"].map(
    (name) => (name === "index" ? "index.js" : `doors/${name}.js`),
  )) {
    it(`opens no library when ${door} is imported`, () => {
      const { stdout, stderr } = spawnSync(process.execPath, [IMPORTS_PACKAGE, door], {
        encoding: "utf8",
      });
      assert.deepEqual(JSON.parse(stdout || "null"), [], stderr);
    });
  }

  it("reports a library that an import opens", () => {
    const { stdout } = spawnSync(process.execPath, [IMPORTS_PACKAGE, "ffi/koffi.js", "koffi"], {
      encoding: "utf8",
    });
    assert.match(stdout, /koffi.*\.node/);
  });
});
