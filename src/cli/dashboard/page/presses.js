// A click is one only if press and release meet the same element, so the page does not replace
// elements while something is pressed.

/** Longer presses hold nothing up: the end of some, as on a scrollbar, is never told. */
const PRESS_MS_MAX = 2000;

const waiting = new Set();
let isPressed = false;
let limit;

/** Draws now, or right after what is pressed has been released and clicked. */
export function drawUnpressed(draw) {
  if (isPressed) waiting.add(draw);
  else draw();
}

function press() {
  isPressed = true;
  clearTimeout(limit);
  limit = setTimeout(release, PRESS_MS_MAX);
}

function release() {
  isPressed = false;
  clearTimeout(limit);
  const draws = [...waiting];
  waiting.clear();
  for (const draw of draws) draw();
}

// WHY captured: a dialog may stop the event. WHY a timer: the click comes after the release.
window.addEventListener("pointerdown", press, true);
for (const end of ["pointerup", "pointercancel"])
  window.addEventListener(end, () => setTimeout(release), true);
