/** The language of a client, by its program and its command line. */

const languages: readonly {
  readonly name: string;
  readonly program: RegExp;
  readonly run: RegExp;
}[] = [
  { name: "JavaScript", program: /\.[cm]?[jt]sx?$/, run: /^(\S*\/)?(node|bun|deno)\d*(\s|$)/ },
  { name: "Python", program: /\.py$/, run: /^(\S*\/)?python[\d.]*t?(\s|$)/ },
];

/** The language of a program, by its file or by what runs it. Undefined for any other. */
export function languageOf(program: string, command: string | undefined): string | undefined {
  const byFile = languages.find((language) => language.program.test(program));
  return (byFile ?? languages.find((language) => language.run.test(command ?? "")))?.name;
}
