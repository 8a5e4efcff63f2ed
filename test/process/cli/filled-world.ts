/** A hub with many kinds of objects of several programs, to look at. */
import { connect } from "../../../src/client/connect.js";
import type { Hub } from "../../../src/client/hub.js";
import type { CliRig } from "./cli-rig.js";

const MiB = 2 ** 20;

/** Joins as programs of these names. The names are what `top` and dashboard show. */
export async function fillWorld(rig: CliRig): Promise<AsyncDisposable> {
  const join = (program: string) => connect({ socket: rig.socket, device: "host", program });
  const [camera, trainer, server, loader] = await Promise.all(
    ["camera.mjs", "train.py", "serve.mjs", "load.py"].map(join),
  );
  const hubs = [camera, trainer, server, loader] as Hub[];
  const [cameraHub, trainerHub, serverHub, loaderHub] = hubs as [Hub, Hub, Hub, Hub];
  await cameraHub.put("frame", sunset(360, 640), { shape: [360, 640, 3] });
  await cameraHub.put("depth", waves(240, 320), { shape: [240, 320] });
  await trainerHub.put("activations", bells(256, 512), { shape: [256, 512] });
  await trainerHub.create("optimizer", { dtype: "float32", shape: [6 * MiB] }).then(publish);
  await trainerHub.create("gradients", { dtype: "bfloat16", shape: [4096, 1024] }).then(publish);
  await loaderHub.put("weights", bells(512, 2048), { shape: [512, 2048] });
  await loaderHub
    .createBundle(
      "model",
      Object.fromEntries(
        Array.from({ length: 12 }, (_, i) => [
          `layers.${i}.weight`,
          { dtype: "float16", shape: [256, 1024] } as const,
        ]),
      ),
    )
    .then(publish);
  for (let i = 0; i < 60; i += 1)
    await serverHub.create(`cache:${i}`, { dtype: "uint8", shape: [16_384 * (1 + (i % 9))] });
  await serverHub.open("weights");
  const frames = await cameraHub.createChannel("frames", {
    dtype: "uint8",
    shape: [90, 160, 3],
    slots: 8,
  });
  await serverHub.openChannel("frames");
  await trainerHub.openChannel("frames");
  for (let i = 0; i < 5; i += 1) (await frames.loan()).commit();
  return {
    async [Symbol.asyncDispose]() {
      for (const hub of hubs) await hub.close();
    },
  };
}

function publish(object: { publish(): Promise<unknown> }) {
  return object.publish();
}

function sunset(height: number, width: number): Uint8Array {
  const pixels = new Uint8Array(height * width * 3);
  for (let y = 0, i = 0; y < height; y += 1)
    for (let x = 0; x < width; x += 1, i += 3) {
      const sky = y / height;
      const sun = Math.hypot(x - 0.68 * width, y - 0.56 * height) < 0.13 * height ? 1 : 0;
      const ground = y > 0.62 * height + 18 * Math.sin(x / 47) + 9 * Math.sin(x / 19) ? 0.22 : 1;
      pixels[i] = ground * Math.min(255, 60 + 180 * sky + 90 * sun);
      pixels[i + 1] = ground * Math.min(255, 70 + 80 * sky + 110 * sun);
      pixels[i + 2] = ground * Math.max(60, 150 - 90 * sky + 20 * sun);
    }
  return pixels;
}

function waves(height: number, width: number): Float32Array {
  return Float32Array.from({ length: height * width }, (_, i) => {
    const [y, x] = [Math.floor(i / width), i % width];
    if (x > 0.8 * width && y < 0.2 * height) return Number.NaN;
    return 3 * Math.sin(x / 25) * Math.cos(y / 31) + (x + y) / 120;
  });
}

/** Values around 0, as weights have. The same at each call. */
function bells(height: number, width: number): Float32Array {
  let seed = 1;
  const next = () => {
    seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0;
    return seed / 2 ** 32;
  };
  return Float32Array.from({ length: height * width }, () => {
    return (next() + next() + next() + next() - 2) / 10;
  });
}
