// Runs @microsoft/api-extractor on declaration files of this project.
import { resolve } from "node:path";
import { CompilerState, Extractor, ExtractorConfig } from "@microsoft/api-extractor";

/** @param options the settings of an api-extractor.json, except the entry */
export function configOf(entry, options) {
  const compilerOptions = {
    target: "ES2022",
    lib: ["ES2023", "ESNext.Disposable"],
    types: ["node"],
    module: "NodeNext",
    moduleResolution: "NodeNext",
    strict: true,
    skipLibCheck: true,
  };
  return ExtractorConfig.prepare({
    packageJsonFullPath: resolve("package.json"),
    configObject: {
      projectFolder: process.cwd(),
      newlineKind: "lf",
      mainEntryPointFilePath: resolve(entry),
      compiler: { overrideTsconfig: { compilerOptions, files: [resolve(entry)] } },
      apiReport: { enabled: false },
      docModel: { enabled: false },
      dtsRollup: { enabled: false },
      tsdocMetadata: { enabled: false },
      messages: {
        compilerMessageReporting: { default: { logLevel: "error" } },
        // `unpublishedNames` in declarations.mjs applies our own rule. No doc comment has TSDoc
        // tags.
        extractorMessageReporting: { default: { logLevel: "none" } },
        tsdocMessageReporting: { default: { logLevel: "none" } },
      },
      ...options,
    },
  });
}

/** One compiler for all configs. Ends the process if one fails, after the reason was printed. */
export function extract(configs) {
  const [first] = configs;
  const compilerState = CompilerState.create(first, {
    additionalEntryPoints: configs.map((config) => config.mainEntryPointFilePath),
  });
  for (const config of configs) {
    const { succeeded } = Extractor.invoke(config, {
      compilerState,
      localBuild: true,
      messageCallback: (message) => {
        if (message.logLevel !== "error") message.handled = true;
      },
    });
    if (!succeeded) process.exit(1);
  }
}
