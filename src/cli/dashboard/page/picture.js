// Shows an array as a picture, with a slider for each axis before rows and columns.
import { byId, element, specialLegend } from "./elements.js";

const canvas = byId("picture");
const sliders = byId("picture-axes");
/** Smaller pictures are enlarged. */
const SMALL = 256;

/** The picture that the dashboard answered, or the reason why there is none. */
export async function readPicture(answer) {
  const reason = answer.headers.get("No-Picture");
  if (reason !== null) return { reason };
  const facts = JSON.parse(answer.headers.get("Picture"));
  return { facts, bitmap: await createImageBitmap(await answer.blob()) };
}

export function drawPicture({ reason, facts, bitmap }, choose) {
  byId("picture-part").hidden = false;
  canvas.hidden = reason !== undefined;
  if (reason !== undefined) {
    byId("picture-words").replaceChildren(`No picture: ${reason}.`);
    return;
  }
  canvas.width = bitmap.width;
  canvas.height = bitmap.height;
  canvas.classList.toggle("small", Math.max(bitmap.width, bitmap.height) < SMALL);
  canvas.getContext("2d").drawImage(bitmap, 0, 0);
  canvas.ariaLabel = facts.words;
  byId("picture-words").replaceChildren(facts.words, specialLegend(facts));
  drawSliders(facts, choose);
}

/** @param choose called with an index of each axis */
function drawSliders({ choices, at }, choose) {
  // While a slider is dragged, it stays.
  if (sliders.children.length > 0) return;
  const inputs = choices.map((size, axis) => {
    const input = element("input");
    Object.assign(input, { type: "range", min: 0, max: size - 1, value: at[axis] });
    return input;
  });
  const lines = inputs.map((input, axis) => {
    const line = element("label", `Axis ${axis} `);
    const output = element("output", `${at[axis]} of ${choices[axis]}`);
    line.append(input, output);
    line.hidden = choices[axis] < 2;
    input.oninput = () => {
      output.textContent = `${input.value} of ${choices[axis]}`;
      choose(inputs.map(({ value }) => Number(value)));
    };
    return line;
  });
  sliders.replaceChildren(...lines);
}

export function clearPicture() {
  byId("picture-part").hidden = true;
  sliders.replaceChildren();
  byId("picture-words").replaceChildren();
  // An empty canvas keeps no pixels.
  canvas.width = 0;
  canvas.height = 0;
}
