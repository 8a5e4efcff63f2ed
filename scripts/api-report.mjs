// Compares the reports in api/, which list what users can import from each door, with the types in
// dist/. With --update it replaces them.
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import ts from "typescript";
import { changesBetween } from "./api-changes.mjs";
import { configOf, extract } from "./api-extractor.mjs";
import { isExported } from "./declarations.mjs";
import { DOORS, namesOf } from "./doors.mjs";

const COMMITTED = "api";
const FOUND = "build/api";
const TYPES = "dist/types.d.ts";
const NAMES_MAX = 61;

writeReports();
const main = namesOf(DOORS[0]).length;
if (main > NAMES_MAX) fail(`"cuda-ipc" has ${main} names, at most ${NAMES_MAX} are agreed.`);
if (process.argv.includes("--update")) update();
else compare();
for (const door of DOORS) console.log(`${door.name}: ${namesOf(door).length} names`);

function writeReports() {
  rmSync(FOUND, { recursive: true, force: true });
  mkdirSync(FOUND, { recursive: true });
  extract(
    DOORS.map(({ file }) =>
      configOf(join("dist", `${file}.d.ts`), {
        apiReport: {
          enabled: true,
          reportFileName: `${basename(file)}.api.md`,
          reportFolder: resolve(FOUND),
          reportTempFolder: resolve(FOUND, "temp"),
        },
      }),
    ),
  );
  rmSync(join(FOUND, "temp"), { recursive: true });
  for (const door of DOORS) {
    const path = join(FOUND, `${basename(door.file)}.api.md`);
    writeFileSync(path, `${readFileSync(path, "utf8")}${unnamedSection(door)}`);
  }
}

/** Lists types that a door's types use and users cannot name. API Extractor omits them. */
function unnamedSection(door) {
  const source = ts.createSourceFile(
    TYPES,
    readFileSync(TYPES, "utf8"),
    ts.ScriptTarget.ES2022,
    true,
  );
  const statements = source.statements.filter(({ name }) => name !== undefined);
  const unnamed = statements.filter((statement) => !isExported(statement, source));
  const found = new Set();
  const visit = (node) => {
    if (ts.isIdentifier(node)) {
      for (const statement of unnamed.filter(({ name }) => name.text === node.text)) {
        if (found.has(statement)) continue;
        found.add(statement);
        visit(statement);
      }
    }
    ts.forEachChild(node, visit);
  };
  const own = new Set(namesOf(door).map(({ name }) => name));
  for (const statement of statements.filter(({ name }) => own.has(name.text.replace(/_\d+$/, ""))))
    visit(statement);
  if (found.size === 0) return "";
  const printer = ts.createPrinter({ removeComments: true });
  const texts = [...found]
    .sort((a, b) => a.pos - b.pos)
    .map((statement) => printer.printNode(ts.EmitHint.Unspecified, statement, source));
  return `\n## Types without a name for users\n\n\`\`\`ts\n${texts.join("\n\n")}\n\`\`\`\n`;
}

function update() {
  rmSync(COMMITTED, { recursive: true, force: true });
  mkdirSync(COMMITTED);
  for (const file of readdirSync(FOUND))
    writeFileSync(join(COMMITTED, file), readFileSync(join(FOUND, file)));
}

function compare() {
  const changes = changesBetween(COMMITTED, FOUND);
  if (changes.length === 0) return;
  fail(
    "The public surface of the package has changed.",
    ...changes,
    "If you meant that, run `npm run api` and commit the folder api/.",
  );
}

function fail(...lines) {
  console.error(lines.join("\n"));
  process.exit(1);
}
