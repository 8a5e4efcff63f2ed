/** What to do if a bundler put this package into a file of the user's, where it finds neither koffi nor its other programs. */
export const leaveOutOfBundle =
  'Leave cuda-ipc out of the bundle (esbuild: --external:cuda-ipc; Rollup: external: ["cuda-ipc"]; webpack: externals)';
