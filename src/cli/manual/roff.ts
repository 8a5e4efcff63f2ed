/** Text for `man`, in the macros of man(7), which groff and mandoc both know. */

/** Characters that mean something to roff, or that it would turn into typographic ones. */
const SPECIAL: Readonly<Record<string, string>> = {
  ...{ "\\": "\\e", "-": "\\-", "'": "\\(aq", "`": "\\(ga", "^": "\\(ha", "~": "\\(ti" },
  '"': "\\(dq",
};

/** One line of text, without its line breaks. It never begins with a dot, as a request does. */
export function escapeRoff(text: string): string {
  const plain = text
    .replaceAll(/\s*\n\s*/g, " ")
    .replaceAll(/[\\\-'`^~"]/g, (mark) => SPECIAL[mark] ?? "");
  const ascii = plain.replaceAll(/[^\x20-\x7e]/gu, (character) => {
    const code = character.codePointAt(0) ?? 0;
    return `\\[u${code.toString(16).toUpperCase().padStart(4, "0")}]`;
  });
  return ascii.startsWith(".") ? `\\&${ascii}` : ascii;
}

export function section(title: string): string {
  return `.SH "${escapeRoff(title)}"`;
}

export function subsection(title: string): string {
  return `.SS "${escapeRoff(title)}"`;
}

export function paragraph(text: string): string {
  return `.PP\n${escapeRoff(text)}`;
}

/** A term in bold, and its text below it. */
export function entry(term: string, text: string): string {
  return `.TP\n\\fB${escapeRoff(term)}\\fP\n${escapeRoff(text)}`;
}

/** Lines that stay as they are. */
export function verbatim(lines: readonly string[]): string {
  return [".PP", ".nf", ...lines.map(escapeRoff), ".fi"].join("\n");
}

/** Paragraphs, with empty lines between them. Indented lines stay as they are. */
export function prose(text: string): string[] {
  const parts: { readonly isIndented: boolean; readonly lines: string[] }[] = [];
  let last: (typeof parts)[number] | undefined;
  for (const line of text.split("\n")) {
    const isIndented = line.startsWith("  ");
    if (line === "") last = undefined;
    else if (last?.isIndented === isIndented) last.lines.push(line);
    else {
      last = { isIndented, lines: [line] };
      parts.push(last);
    }
  }
  return parts.map(({ isIndented, lines }) =>
    isIndented ? verbatim(lines) : paragraph(lines.join(" ")),
  );
}
