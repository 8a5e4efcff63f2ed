import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { TopState } from "../../../../src/cli/top/top-state.js";

function pressed(keys: string, state = new TopState()): TopState {
  for (const key of keys.split(" ")) state.press(key);
  return state;
}

describe("TopState", () => {
  it("chooses views by number and one after the other", () => {
    assert.equal(pressed("3").view.title, "clients");
    assert.equal(pressed("tab tab").view.title, "clients");
    assert.equal(pressed("shift-tab").view.title, "devices");
    assert.equal(pressed("9").view.title, "objects");
  });

  it("keeps the cursor on its row while rows come and go", () => {
    const state = new TopState();
    state.drawn([1, 2, 3, 4], 10);
    state.press("down");
    assert.equal(state.selected, 1);
    state.drawn([9, 1, 2, 3], 10);
    assert.equal(state.selected, 2);
    state.drawn([9, 1, 3, 4], 10);
    assert.equal(state.selected, 2, "its row has gone, and it stays at its place");
  });

  it("moves by rows and pages within the rows, and scrolls no further than needed", () => {
    const state = new TopState();
    const ids = Array.from({ length: 100 }, (_, id) => id);
    const draw = () => state.drawn(ids, 10);
    draw();
    const after = (key: string) => {
      state.press(key);
      draw();
      return [state.selected, state.first];
    };
    assert.deepEqual(after("up"), [0, 0]);
    assert.deepEqual(after("pagedown"), [10, 1]);
    assert.deepEqual(after("up"), [9, 1]);
    assert.deepEqual(after("end"), [99, 90]);
    assert.deepEqual(after("down"), [99, 90]);
    assert.deepEqual(after("home"), [0, 0]);
  });

  it("takes letters into the filter while it is edited, also those that are keys", () => {
    const state = pressed("/ q r return");
    assert.deepEqual([state.choice.filter, state.editing], ["qr", false]);
    assert.equal(pressed("/ a b backspace").choice.filter, "a");
    assert.equal(pressed("/ a escape").choice.filter, "");
    assert.equal(pressed("escape", state).choice.filter, "");
    assert.equal(new TopState("given").choice.filter, "given");
  });

  it("sorts by the next and the previous column, and reverses", () => {
    const state = new TopState();
    const { length } = state.view.columns;
    assert.equal(state.choice.sortedBy, 1);
    assert.equal(pressed("s").choice.sortedBy, 2);
    assert.equal(pressed("S S").choice.sortedBy, length - 1);
    assert.equal(pressed("r").choice.reversed, true);
    assert.equal(pressed("s 2 1").choice.sortedBy, 2, "each view has its own order");
  });

  it("shows details only of a row, and scrolls within them", () => {
    const state = new TopState();
    state.drawn([], 10);
    state.press("return");
    assert.equal(state.showsDetails, false);
    state.drawn([1], 10);
    state.press("return");
    assert.equal(state.showsDetails, true);
    pressed("end", state).drawnText(25, 10);
    assert.equal(state.scrolled, 15);
    pressed("up", state).drawnText(25, 10);
    assert.equal(state.scrolled, 14);
    assert.equal(pressed("escape", state).showsDetails, false);
  });

  it("asks to quit, interrupt and suspend, also while a filter is edited", () => {
    const state = new TopState();
    assert.equal(state.press("q"), "quit");
    assert.equal(state.press("ctrl-z"), "suspend");
    state.press("/");
    assert.equal(state.press("q"), undefined);
    assert.equal(state.press("ctrl-c"), "interrupt");
  });
});
