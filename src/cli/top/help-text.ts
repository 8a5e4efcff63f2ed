/** The keys of `top`, and what its words mean. */
export const helpLines: readonly (readonly [string, string])[] = [
  ["1 to 5", "choose a view; Tab and Shift-Tab go through them"],
  ["Up, Down", "move the cursor; also k and j, PageUp and PageDown, Home and End"],
  ["Enter", "show everything about a row; Esc goes back"],
  ["/", "show only rows with a text; Enter keeps it, Esc removes it"],
  ["s, S", "sort by the next or the previous column; the sorted one has a *"],
  ["r", "reverse the order"],
  ["p", "pause"],
  ["Ctrl-Z", "suspend"],
  ["q", "quit"],
  ["", ""],
  ["bars", "# by objects of the hub that you can open, = by others, . free"],
  ["HELD BY", "processes with a lease; memory is freed when the last one closes it"],
  ["LAG", "messages that a reader has not given back yet"],
  ["BANDWIDTH", "messages a second times the mean size of the latest ones"],
  ["LATENCY", "the median time from a request to its answer, of the latest ones"],
];
