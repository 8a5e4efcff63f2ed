/** Faults of Markdown pages: sections of error codes, dead links, long lines. */
import { errorCodes, isErrorCode } from "../../src/base/error-codes.js";

/** The faults of docs/troubleshooting.md, where every code needs a section of its own. */
export function faultsOfPage(page: string): string[] {
  const sections = new Map<string, string>();
  const faults: string[] = [];
  for (const [, title = "", text = ""] of page.matchAll(
    /^### `([^`]*)`\n([\s\S]*?)(?=^##|(?![\s\S]))/gm,
  )) {
    if (sections.has(title)) faults.push(`${title} has two sections`);
    sections.set(title, text);
  }
  for (const code of Object.keys(errorCodes)) {
    if (!sections.has(code)) faults.push(`${code} is missing`);
  }
  for (const [code, text] of sections) {
    if (!isErrorCode(code)) faults.push(`${code} is no error code`);
    for (const part of ["Cause", "Remedy"]) {
      if (!new RegExp(`^\\*\\*${part}:\\*\\* \\S`, "m").test(text))
        faults.push(`${code} has no ${part}`);
    }
  }
  return faults;
}

/**
 * Links to headings and files that do not exist. Links to the web are not checked.
 * @param textOf the text of a file by its path from the page, undefined if there is no such file
 */
export function deadLinks(page: string, textOf: (file: string) => string | undefined): string[] {
  const targets = [...page.matchAll(/\]\(([^)\s]+)\)/g)].map(([, target = ""]) => target);
  return targets.filter((target) => {
    if (/^https?:/.test(target)) return false;
    const [file = "", anchor] = target.split("#");
    const text = file === "" ? page : textOf(file);
    return text === undefined || (anchor !== undefined && !anchorsOf(text).has(anchor));
  });
}

function anchorsOf(page: string): Set<string> {
  return new Set([...page.matchAll(/^#+ (.*)$/gm)].map(([, title = ""]) => anchorOf(title)));
}

/** As GitHub makes them: lower case, hyphens for spaces, without other signs. */
function anchorOf(title: string): string {
  return title
    .toLowerCase()
    .replace(/[^\w\- ]/g, "")
    .replaceAll(" ", "-");
}

/** What `npm run matrix` writes into docs/reliability.md. */
const GENERATED = /<!-- fault matrix:[\s\S]*<!-- end of the fault matrix -->/;

/** Lines of more than 100 characters, except tables, lines with links, and generated parts. */
export function longLines(page: string): string[] {
  return page
    .replace(GENERATED, "")
    .split("\n")
    .filter((line) => line.length > 100 && !line.startsWith("|") && !line.includes("]("));
}
