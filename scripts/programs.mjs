// Bundles the processes that the package starts: the command line, the hub, its keeper and its gates. Importing 200 files
// takes three times as long as importing one. The package (dist/) and the tests (build/src/) get the same bundles.
import { build } from "esbuild";

/** What every bundle of the package has in common. */
export const BUNDLE = {
  outbase: "src",
  bundle: true,
  splitting: true,
  format: "esm",
  platform: "node",
  target: "node20.19",
  packages: "external",
  sourcemap: true,
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
 * WHY splitting: chunks lie in the root of outdir, where `src/base/own-program.ts` expects them.
 */
export async function bundlePrograms(outdir) {
  await Promise.all([
    build({ ...BUNDLE, outdir, entryPoints: HUB, chunkNames: "hub-[hash]" }),
    build({ ...BUNDLE, outdir, entryPoints: COMMAND_LINE, chunkNames: "cli-[hash]" }),
    // WHY by itself: the launcher is CommonJS, and imports ./main.js when it runs.
    build({
      entryPoints: ["src/cli/launch.cts"],
      outfile: `${outdir}/cli/launch.cjs`,
      bundle: true,
      external: ["./main.js"],
      format: "cjs",
      platform: "node",
      target: "node20.19",
      logLevel: "warning",
    }),
  ]);
}
