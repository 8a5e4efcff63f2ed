/** Ways to write the path of a socket, and the abstract address that all of them lead to. */
import { hubSocketPath } from "../../../src/os/runtime-folder.js";
import { twinName } from "../../../src/os/socket-twin.js";

const FOLDER = "/";
const GIVEN = [
  "/run/user/1000/cuda-ipc/hub.sock",
  "/run/user/1000/cuda-ipc/hub.sock/",
  "//run/user/1000/cuda-ipc//hub.sock",
  "///run/./user/1000/other/../cuda-ipc/hub.sock",
  "run/user/1000/cuda-ipc/hub.sock",
  "./run/user/1000/cuda-ipc/./hub.sock//",
  "../../run/user/1000/cuda-ipc/hub.sock/.",
  "/..hub/.sock/...",
  "/var/run/../run/hub.sock",
  "/tmp/größe/hub.sock",
];

/** docs/protocol/vectors/socket-paths.json */
export function socketPathVectors(): object {
  const earlier = process.cwd();
  process.chdir(FOLDER);
  try {
    const paths = GIVEN.map((given) => {
      const path = hubSocketPath(given);
      return { given, path, hash: twinName(path)?.split("/").at(-1) };
    });
    return { folder: FOLDER, paths };
  } finally {
    process.chdir(earlier);
  }
}
