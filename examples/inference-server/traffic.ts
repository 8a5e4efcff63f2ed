/** Generates images, sends them to the gateway as PNG and JPEG, and checks the answers. */
import { CudaIpcError } from "cuda-ipc";
import sharp from "sharp";
import { colourOf, labels } from "./model.ts";

const AT_A_TIME = 8;

/** How many answers each worker gave. */
export type Answers = ReadonlyMap<number, number>;

/** @param onAnswer called with the number of answers so far */
export async function sendImages(
  url: string,
  count: number,
  onAnswer: (answered: number) => void,
): Promise<Answers> {
  const answers = new Map<number, number>();
  let [next, answered] = [0, 0];
  const sendOn = async () => {
    while (next < count) {
      next += 1;
      const worker = await sendImage(url, next - 1);
      answers.set(worker, (answers.get(worker) ?? 0) + 1);
      answered += 1;
      onAnswer(answered);
    }
  };
  await Promise.all(Array.from({ length: AT_A_TIME }, sendOn));
  return answers;
}

/** @throws VERIFICATION_FAILED for a wrong answer. @returns the worker that answered */
async function sendImage(url: string, number: number): Promise<number> {
  const { label, body, type } = await makeImage(number);
  const response = await fetch(`${url}/classify`, {
    method: "POST",
    headers: { "content-type": type },
    body,
  });
  const answer = (await response.json()) as {
    readonly label?: string;
    readonly worker?: number;
    readonly error?: string;
  };
  if (response.status !== 200 || answer.label !== label) {
    const found = `${response.status} ${answer.error ?? answer.label}`;
    throw new CudaIpcError(
      "VERIFICATION_FAILED",
      `image ${number} was answered ${found}, wanted 200 ${label}`,
    );
  }
  return answer.worker ?? 0;
}

/** Sends data that is no image and requests to wrong paths, which must be refused. */
export async function sendNonsense(url: string): Promise<void> {
  const cases = [
    { path: "/classify", method: "POST", body: "no image", status: 400 },
    { path: "/classify", method: "POST", body: new Uint8Array(9 * 1024 * 1024), status: 413 },
    { path: "/classify", method: "GET", body: undefined, status: 405 },
    { path: "/", method: "POST", body: "no image", status: 404 },
  ];
  for (const { path, method, body, status } of cases) {
    const response = await fetch(url + path, { method, body: body ?? null });
    await response.text();
    if (response.status === status) continue;
    throw new CudaIpcError(
      "VERIFICATION_FAILED",
      `${method} ${path} was answered ${response.status}, wanted ${status}`,
    );
  }
}

/** A PNG or JPEG of squares in two shades of one colour. Each image has its own size. */
async function makeImage(
  number: number,
): Promise<{ label: string; body: Uint8Array<ArrayBuffer>; type: string }> {
  const label = labels[number % labels.length] ?? "red";
  const [width, height] = [64 + ((number * 37) % 400), 48 + ((number * 61) % 300)];
  const pixels = new Uint8Array(3 * width * height);
  for (let i = 0; i < width * height; i += 1) {
    const isDark = (((i % width) >> 3) + (Math.floor(i / width) >> 3)) % 2 === 0;
    for (const [channel, value] of colourOf(label).entries()) {
      pixels[3 * i + channel] = isDark ? 0.8 * value : Math.min(255, value + 20);
    }
  }
  const image = sharp(pixels, { raw: { width, height, channels: 3 } });
  const isPng = number % 2 === 0;
  const bytes = await (isPng ? image.png() : image.jpeg({ quality: 85 })).toBuffer();
  return { label, body: Uint8Array.from(bytes), type: isPng ? "image/png" : "image/jpeg" };
}
