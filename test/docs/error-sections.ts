/** What docs/troubleshooting.md says of each error code: a section of its own with cause and remedy. */
import { errorCodes, isErrorCode } from "../../src/base/error-codes.js";

/** What is wrong with the page, a sentence each; nothing where every code has its section. */
export function faultsOfPage(page: string): string[] {
  const sections = new Map<string, string>();
  const faults: string[] = [];
  for (const [, title = "", text = ""] of page.matchAll(/^### `([^`]*)`\n([\s\S]*?)(?=^##|(?![\s\S]))/gm)) {
    if (sections.has(title)) faults.push(`${title} has two sections`);
    sections.set(title, text);
  }
  for (const code of Object.keys(errorCodes)) {
    if (!sections.has(code)) faults.push(`${code} is missing`);
  }
  for (const [code, text] of sections) {
    if (!isErrorCode(code)) faults.push(`${code} is no error code`);
    for (const part of ["Cause", "Remedy"]) {
      if (!new RegExp(`^\\*\\*${part}:\\*\\* \\S`, "m").test(text)) faults.push(`${code} has no ${part}`);
    }
  }
  return faults;
}

/**
 * Links within the page, and to other files of the repository, that lead nowhere.
 * @param textOf a file, by its path from the page; undefined where there is none
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

/** As GitHub makes them: lower case, spaces to hyphens, other signs left out. */
function anchorOf(title: string): string {
  return title
    .toLowerCase()
    .replace(/[^\w\- ]/g, "")
    .replaceAll(" ", "-");
}
