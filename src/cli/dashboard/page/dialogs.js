// The dialogs of the page, which loads them after its first rows.
export { openDetail, refreshDetail } from "./detail.js";
export { objectsEnded, openObject } from "./object.js";
