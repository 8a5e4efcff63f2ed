// Bundles the package's doors, and the processes that it starts: the command line, the hub, its
// keeper, its gates and the processes that write words for it. Importing 200 files takes three
// times as long as importing one. The package (dist/) and the tests (build/src/) get the same
// bundles.
import { cpSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { build } from "esbuild";
import { DOORS } from "./doors.mjs";
import { lowerUsing } from "./lower-using.mjs";

/** The settings that all bundles of the package have in common. */
const BUNDLE = {
  outbase: "src",
  bundle: true,
  splitting: true,
  format: "esm",
  platform: "node",
  target: "node20.19",
  packages: "external",
  plugins: [lowerUsing],
  // Without the texts, because the package has the sources at the paths in the maps.
  sourcemap: true,
  sourcesContent: false,
  logLevel: "warning",
};

const HUB = [
  "src/hub/main.ts",
  "src/hub/gate/gate-main.ts",
  "src/hub/words/words-main.ts",
  "src/keeper/main.ts",
];
const COMMAND_LINE = [
  "src/cli/main.ts",
  "src/cli/demo/actors/producer.ts",
  "src/cli/demo/actors/consumer.ts",
  "src/cli/demo/actors/reader.ts",
  "src/cli/demo/actors/sender.ts",
  "src/cli/demo/actors/receiver.ts",
  "src/cli/demo/actors/sweeper.ts",
  "src/cli/doctor/actors/plays-part.ts",
];

/**
 * One build, so that the doors share chunks: two copies of a class would break `instanceof`.
 * @param root the compiled root of the sources
 * @param folder where in `root` the doors go
 */
export function bundleDoors(root, folder = ".") {
  return build({
    ...BUNDLE,
    outdir: root,
    entryPoints: DOORS.map(({ file }) => ({ in: `src/${file}.ts`, out: join(folder, file) })),
    chunkNames: "doors-[hash]",
  });
}

/**
 * Bundles programs of the tests where they were compiled to.
 * @param programs paths of their sources
 */
export function bundleTests(programs) {
  return build({
    ...BUNDLE,
    outbase: ".",
    outdir: "build",
    entryPoints: programs,
    // In the root of the sources, as those of `bundlePrograms`.
    chunkNames: "src/actors-[hash]",
  });
}

/**
 * WHY two builds: with more programs in one, esbuild splits what they share into more, smaller
 * files. Chunks are in the root of the sources, where `src/base/own-package.ts` expects them.
 * @param root the compiled root of the sources
 * @param preload modules that tests load into these programs first, and that share their modules
 */
export async function bundlePrograms(root, preload = { hub: [], commandLine: [] }) {
  // The dashboard's page runs in browsers as it is.
  cpSync("src/cli/dashboard/page", join(root, "cli/dashboard/page"), { recursive: true });
  const place = (modules, chunks) => {
    if (modules.length === 0) return { outdir: root, chunkNames: chunks };
    const outdir = dirname(root);
    return { outbase: ".", outdir, chunkNames: join(relative(outdir, root), chunks) };
  };
  await Promise.all([
    build({
      ...BUNDLE,
      ...place(preload.hub, "hub-[hash]"),
      entryPoints: [...HUB, ...preload.hub],
    }),
    build({
      ...BUNDLE,
      ...place(preload.commandLine, "cli-[hash]"),
      entryPoints: [...COMMAND_LINE, ...preload.commandLine],
    }),
    // WHY a separate build: the launcher is CommonJS, and imports ./main.js at run time.
    build({
      entryPoints: ["src/cli/launch.cts"],
      outfile: join(root, "cli/launch.cjs"),
      bundle: true,
      external: ["./main.js"],
      format: "cjs",
      platform: "node",
      target: "node20.19",
      logLevel: "warning",
    }),
  ]);
}
