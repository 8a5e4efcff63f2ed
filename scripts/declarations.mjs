// Writes the declarations that are published: dist/types.d.ts has everything, and one small file
// per door exports its names from there. WHY one file: a class that is declared in two files is two
// types.
import { spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import ts from "typescript";
import { configOf, extract } from "./api-extractor.mjs";
import { DOORS, namesOf } from "./doors.mjs";

/**
 * Ends the process with a sentence if the types cannot be published.
 * @param to the folder that they are written to
 * @param work a folder for the declarations of single files
 */
export function writeDeclarations(to = "dist", work = "build/types") {
  rmSync(work, { recursive: true, force: true });
  const tsc = spawnSync(
    process.execPath,
    ["node_modules/typescript/bin/tsc", "-p", "tsconfig.build.json", "--outDir", work],
    { stdio: "inherit" },
  );
  if (tsc.status !== 0) process.exit(tsc.status ?? 1);
  const published = new Map(
    DOORS.flatMap(namesOf).map(({ name, isType }) => [name, isType ? "type" : "value"]),
  );
  const all = join(work, "all.d.ts");
  writeFileSync(all, DOORS.map(({ file }) => `export * from "./${file}.js";\n`).join(""));
  hideInternals(all, published);
  const rolled = resolve(to, "types.d.ts");
  mkdirSync(to, { recursive: true });
  extract([configOf(all, { dtsRollup: { enabled: true, untrimmedFilePath: rolled } })]);
  for (const door of DOORS) writeDoor(door, to);
  const faults = unpublishedNames(readFileSync(rolled, "utf8"));
  if (faults.length === 0) return;
  console.error(
    [
      "Cannot publish the types: signatures name types that no door exports.",
      ...faults.map((fault) => `  ${fault}`),
      "Export the type from src/index.ts or a file in src/doors/, or mark the member @internal.",
    ].join("\n"),
  );
  process.exit(1);
}

function writeDoor(door, to) {
  const path = join(to, `${door.file}.d.ts`);
  const types = relative(dirname(path), join(to, "types.js"));
  const from = types.startsWith(".") ? types : `./${types}`;
  const lines = [true, false].flatMap((isType) => {
    const names = namesOf(door).filter((it) => it.isType === isType);
    if (names.length === 0) return [];
    const list = names.map(({ name }) => `  ${name},\n`).join("");
    return `export ${isType ? "type " : ""}{\n${list}} from "${from}";\n`;
  });
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, lines.join(""));
}

/**
 * Makes internals unreachable in the declarations of single files. A constructor becomes private if
 * it takes a type that no door exports, or if users get only the type of its class. A type that is
 * inferred from a schema is written out.
 */
function hideInternals(all, published) {
  const program = ts.createProgram([all], {
    target: ts.ScriptTarget.ES2022,
    lib: ["lib.es2023.d.ts", "lib.esnext.disposable.d.ts"],
    types: ["node"],
    module: ts.ModuleKind.NodeNext,
    strict: true,
    skipLibCheck: true,
  });
  const checker = program.getTypeChecker();
  const folder = dirname(resolve(all));
  const sources = program.getSourceFiles().filter(({ fileName }) => fileName.startsWith(folder));
  const bases = new Set(sources.flatMap(({ statements }) => statements).flatMap(basesOf));
  for (const source of sources) {
    const edits = source.statements.flatMap((statement) => {
      if (ts.isClassDeclaration(statement))
        return constructorEdits(statement, bases, published, checker);
      return ts.isTypeAliasDeclaration(statement) ? aliasEdits(statement, published, checker) : [];
    });
    if (edits.length > 0) writeFileSync(source.fileName, edited(source.text, edits));
  }
}

/** The classes that a class extends. */
function basesOf(statement) {
  if (!ts.isClassDeclaration(statement)) return [];
  return (statement.heritageClauses ?? [])
    .filter(({ token }) => token === ts.SyntaxKind.ExtendsKeyword)
    .flatMap(({ types }) => types.map(({ expression }) => expression.getText()));
}

function constructorEdits(declared, bases, published, checker) {
  const own = new Set((declared.typeParameters ?? []).map(({ name }) => name.text));
  const isHidden = (name) => {
    if (own.has(name.text)) return false;
    const found = checker.getSymbolAtLocation(name);
    const isImport = found !== undefined && (found.flags & ts.SymbolFlags.Alias) !== 0;
    const symbol = isImport ? checker.getAliasedSymbol(found) : found;
    const file = symbol?.declarations?.[0]?.getSourceFile().fileName ?? "";
    return (
      file.startsWith(process.cwd()) && !/node_modules/.test(file) && !published.has(symbol.name)
    );
  };
  const name = declared.name.text;
  const hidesAll = published.get(name) === "type";
  const visibility = bases.has(name) ? "protected" : "private";
  return declared.members
    .filter(ts.isConstructorDeclaration)
    .filter(
      (member) =>
        hidesAll || member.parameters.some(({ type }) => type && names(type).some(isHidden)),
    )
    .map((member) => ({
      start: member.getFullStart(),
      end: member.end,
      text: `\n    ${visibility} constructor();`,
    }));
}

/** The names of types below a node. */
function names(node) {
  const found = [];
  const visit = (it) => {
    if (ts.isTypeReferenceNode(it) && ts.isIdentifier(it.typeName)) found.push(it.typeName);
    if (ts.isTypeQueryNode(it) && ts.isIdentifier(it.exprName)) found.push(it.exprName);
    ts.forEachChild(it, visit);
  };
  visit(node);
  return found;
}

function aliasEdits(alias, published, checker) {
  const queries = [];
  const visit = (node) => {
    if (ts.isTypeQueryNode(node)) queries.push(node.exprName.getText());
    ts.forEachChild(node, visit);
  };
  visit(alias.type);
  const isGeneric = alias.typeParameters !== undefined;
  if (isGeneric || queries.every((name) => published.has(name))) return [];
  const text = written(checker.getTypeAtLocation(alias.name), checker, alias, "");
  return [{ start: alias.type.getStart(), end: alias.type.end, text }];
}

/** Writes a type out without the names of its parts. Object types keep their doc comments. */
function written(type, checker, at, indent) {
  if (type.isUnion() && type.types.some((part) => isObject(part))) {
    return type.types.map((part) => written(part, checker, at, indent)).join(" | ");
  }
  if (checker.isArrayType(type)) {
    const [element] = checker.getTypeArguments(type);
    const text = written(element, checker, at, indent);
    return /^\w+$/.test(text) ? `readonly ${text}[]` : `readonly (${text})[]`;
  }
  if (!isObject(type) || checker.isTupleType(type) || checker.getIndexInfosOfType(type).length > 0)
    return checker.typeToString(type, at, ts.TypeFormatFlags.NoTruncation);
  const inner = `${indent}    `;
  const members = checker.getPropertiesOfType(type).map((property) => {
    const doc = ts.displayPartsToString(property.getDocumentationComment(checker));
    const optional = (property.flags & ts.SymbolFlags.Optional) !== 0 ? "?" : "";
    const value = written(checker.getTypeOfSymbol(property), checker, at, inner);
    const comment = doc === "" ? "" : `${inner}/** ${doc.replaceAll(/\s+/g, " ")} */\n`;
    return `${comment}${inner}readonly ${property.name}${optional}: ${value};\n`;
  });
  return `{\n${members.join("")}${indent}}`;
}

function isObject(type) {
  return (type.flags & ts.TypeFlags.Object) !== 0;
}

function edited(text, edits) {
  return edits
    .sort((a, b) => b.start - a.start)
    .reduce(
      (result, { start, end, text: replacement }) =>
        result.slice(0, start) + replacement + result.slice(end),
      text,
    );
}

/**
 * Signatures in a file of types that name an interface or a class which this file does not export.
 * Such a type may only be extended, or give some of its members.
 */
export function unpublishedNames(text) {
  const source = ts.createSourceFile("types.d.ts", text, ts.ScriptTarget.ES2022, true);
  const hidden = new Set(
    source.statements
      .filter((it) => ts.isInterfaceDeclaration(it) || ts.isClassDeclaration(it))
      .filter((it) => !isExported(it, source))
      .map(({ name }) => name.text),
  );
  const faults = new Set();
  for (const statement of source.statements) {
    const visit = (node) => {
      if (ts.isTypeReferenceNode(node) && hidden.has(node.typeName.getText(source))) {
        if (!givesMembers(node, source))
          faults.add(`${statement.name?.text} names ${node.typeName.getText(source)}`);
      }
      ts.forEachChild(node, visit);
    };
    visit(statement);
  }
  return [...faults];
}

/** Whether the node is the T of `T["name"]`, `Pick<T, ...>` or `Omit<T, ...>`. */
function givesMembers(node, source) {
  const { parent } = node;
  if (ts.isIndexedAccessTypeNode(parent)) return parent.objectType === node;
  return ts.isTypeReferenceNode(parent) && /^(Pick|Omit)$/.test(parent.typeName.getText(source));
}

/** True if it is marked `export`, or exported under another name, as `Event` is. */
export function isExported(statement, source) {
  if (statement.modifiers?.some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword)) return true;
  return source.statements
    .filter(ts.isExportDeclaration)
    .flatMap(({ exportClause }) => exportClause.elements)
    .some(({ name, propertyName }) => (propertyName ?? name).text === statement.name.text);
}
