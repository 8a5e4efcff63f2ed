// Bundles the processes that the package starts: the command line, the hub, its keeper and its gates. Importing 200 files
// takes three times as long as importing one. The package (dist/) and the tests (build/src/) get the same bundles.
import { dirname, join, relative } from "node:path";
import { build } from "esbuild";
import { lowerUsing } from "./lower-using.mjs";

/** What every bundle of the package has in common. */
export const BUNDLE = {
  outbase: "src",
  bundle: true,
  splitting: true,
  format: "esm",
  platform: "node",
  target: "node20.19",
  packages: "external",
  plugins: [lowerUsing],
  // WHY without the texts: the package has its sources, at the place that the maps name.
  sourcemap: true,
  sourcesContent: false,
  logLevel: "warning",
};

const HUB = ["src/hub/main.ts", "src/hub/gate-main.ts", "src/keeper/main.ts"];
const COMMAND_LINE = [
  "src/cli/main.ts",
  "src/cli/demo/actors/producer.ts",
  "src/cli/demo/actors/consumer.ts",
  "src/cli/demo/actors/reader.ts",
  "src/cli/doctor/actors/plays-part.ts",
];

/**
 * WHY two bundles: with more programs in one, esbuild cuts what they share into more and smaller files.
 * WHY splitting: chunks lie in the root of the sources, where `src/base/own-program.ts` expects them.
 * @param root where the root of the sources is compiled to
 * @param hubPreload loaded into hubs and keepers before their own code: it must share their modules
 */
export async function bundlePrograms(root, hubPreload = []) {
  const where = hubPreload.length > 0 ? { outbase: ".", outdir: dirname(root) } : { outdir: root };
  const chunks = relative(where.outdir, root);
  await Promise.all([
    build({ ...BUNDLE, ...where, entryPoints: [...HUB, ...hubPreload], chunkNames: join(chunks, "hub-[hash]") }),
    build({ ...BUNDLE, outdir: root, entryPoints: COMMAND_LINE, chunkNames: "cli-[hash]" }),
    // WHY by itself: the launcher is CommonJS, and imports ./main.js when it runs.
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
