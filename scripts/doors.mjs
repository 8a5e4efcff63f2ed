// The doors of the package: what users import, and which source file exports its names.
import { readFileSync } from "node:fs";
import ts from "typescript";

/** `file` is a path below src without its ending. The published files have that path below dist. */
export const DOORS = [
  { name: "cuda-ipc", file: "index" },
  ...["service", "peer", "interop", "kernels", "diagnostics"].map((door) => ({
    name: `cuda-ipc/${door}`,
    file: `doors/${door}`,
  })),
];

/** The names that a door exports. `isType`: it exports the type only. */
export function namesOf({ file }) {
  const path = `src/${file}.ts`;
  const source = ts.createSourceFile(path, readFileSync(path, "utf8"), ts.ScriptTarget.ES2022);
  return source.statements.filter(ts.isExportDeclaration).flatMap((statement) =>
    statement.exportClause.elements.map((element) => ({
      name: element.name.text,
      isType: statement.isTypeOnly || element.isTypeOnly,
    })),
  );
}
